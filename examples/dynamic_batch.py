"""A model that was built for several batch sizes, or resolutions, or dims (pyACL guide, 7.6.1).

`atc` builds one model for a few "gears". Before each run the program says which one it means. Slips of the guide that are
mended: `batchSize` for `batch_size`, `ModelExecute(int index)`.
"""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
from common import Dataset, Model, check, compare, device, work_folder

import acl

ACL_DYNAMIC_TENSOR_NAME = "ascend_mbatch_shape_data"


def run(model: Model, inputs: Dataset, outputs: Dataset, image: np.ndarray, choose) -> np.ndarray:
    """One run with the gear that `choose` sets."""
    inputs.write(0, image)
    index = check(acl.mdl.get_input_index_by_name(model.desc, ACL_DYNAMIC_TENSOR_NAME))
    check(choose(model.id, inputs.handle, index))
    check(acl.mdl.execute(model.id, inputs.handle, outputs.handle))
    dims = check(acl.mdl.get_cur_output_dims(model.desc, 0))
    return outputs.read(0, dims["dims"])


def batches(onnx_path: Path, folder: Path) -> None:
    """--dynamic_batch_size"""
    om = models.convert(onnx_path, folder / "batches", "--input_shape=data:-1,3,64,64", "--dynamic_batch_size=1,2,4,8")
    model = Model(om)
    inputs, outputs = model.inputs(), model.outputs()
    print("built for the batch sizes", check(acl.mdl.get_dynamic_batch(model.desc))["batch"])
    for size in (1, 8, 4):
        image = random_image(size, 64, 64)
        ours = run(
            model,
            inputs,
            outputs,
            image,
            lambda number, data, at, size=size: acl.mdl.set_dynamic_batch_size(number, data, at, size),
        )
        compare(f"batch {size}", ours, models.reference(onnx_path, data=image))
    ret = acl.mdl.set_dynamic_batch_size(model.id, inputs.handle, 1, 3)
    print("batch 3 is refused with", ret)
    assert ret == 145013 and acl.get_recent_err_msg()
    release(model, inputs, outputs)


def resolutions(onnx_path: Path, folder: Path) -> None:
    """--dynamic_image_size"""
    options = ("--input_shape=data:1,3,-1,-1", "--dynamic_image_size=64,64;64,128;128,128")
    model = Model(models.convert(onnx_path, folder / "resolutions", *options))
    inputs, outputs = model.inputs(), model.outputs()
    print("built for the resolutions", check(acl.mdl.get_dynamic_hw(model.desc, -1))["hw"])
    for height, width in ((64, 64), (128, 128), (64, 128)):
        image = random_image(1, height, width)
        ours = run(
            model,
            inputs,
            outputs,
            image,
            lambda number, data, at, h=height, w=width: acl.mdl.set_dynamic_hw_size(number, data, at, h, w),
        )
        compare(f"resolution {height} x {width}", ours, models.reference(onnx_path, data=image))
    release(model, inputs, outputs)


def dims(onnx_path: Path, folder: Path) -> None:
    """--dynamic_dims"""
    options = ("--input_shape=data:-1,3,-1,-1", "--dynamic_dims=1,64,64;8,32,32", "--input_format=ND")
    model = Model(models.convert(onnx_path, folder / "dims", *options))
    inputs, outputs = model.inputs(), model.outputs()
    count = check(acl.mdl.get_input_dynamic_gear_count(model.desc, -1))
    gears = check(acl.mdl.get_input_dynamic_dims(model.desc, -1, count))
    print("built for the dims", [gear["dims"][: gear["dimCount"]] for gear in gears])
    for shape in ([8, 3, 32, 32], [1, 3, 64, 64]):
        image = random_image(shape[0], *shape[2:])
        current = {"name": "", "dimCount": 4, "dims": shape}
        ours = run(
            model,
            inputs,
            outputs,
            image,
            lambda number, data, at, now=current: acl.mdl.set_input_dynamic_dims(number, data, at, now),
        )
        compare(f"dims {shape}", ours, models.reference(onnx_path, data=image))
    release(model, inputs, outputs)


def random_image(batch: int, height: int, width: int) -> np.ndarray:
    """Numbers for an input."""
    return np.random.default_rng(batch + height + width).random((batch, 3, height, width), np.float32)


def release(model: Model, inputs: Dataset, outputs: Dataset) -> None:
    """Give everything back."""
    inputs.destroy()
    outputs.destroy()
    model.unload()


def main() -> None:
    """All three kinds of gears with the same network."""
    with work_folder() as folder, device():
        onnx_path = models.classifier(folder / "classifier.onnx", ["batch", 3, "height", "width"])
        batches(onnx_path, folder)
        resolutions(onnx_path, folder)
        dims(onnx_path, folder)


if __name__ == "__main__":
    main()
