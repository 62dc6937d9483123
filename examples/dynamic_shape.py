"""A model that was built for a range of shapes (pyACL guide, 7.6.2).

The size of an input or output is 0 in the description: the program allocates what it thinks is enough, says the shape of
each run, and asks for the shape of the result afterwards. Slips of the guide that are mended: `get_run_mode(runMode)` and
`malloc_host(outHostData, size)` with their results as arguments, a file written from a bare address.
"""

from __future__ import annotations

import models
import numpy as np
from common import ACL_MEMCPY_DEVICE_TO_HOST, Dataset, Model, check, compare, device, work_folder

import acl

ACL_HOST = 1
LARGEST = 4 * 2 * 3 * 256 * 256  # bytes; an estimate, as the guide advises
SHAPES = ([1, 3, 224, 224], [2, 3, 100, 60], [1, 3, 33, 256])


def set_tensor_desc(inputs: Dataset, shape: list[int]) -> int:
    """Say the shape of the next run; type and format are taken from the model."""
    desc = acl.create_tensor_desc(0, shape, 0)
    check(acl.mdl.set_dataset_tensor_desc(inputs.handle, desc, 0))
    return desc


def run(model: Model, inputs: Dataset, outputs: Dataset, image: np.ndarray) -> np.ndarray:
    """One run; the result has the shape that the model reports."""
    inputs.write(0, image)
    input_desc = set_tensor_desc(inputs, list(image.shape))
    check(acl.mdl.execute(model.id, inputs.handle, outputs.handle))
    output_desc = acl.mdl.get_dataset_tensor_desc(outputs.handle, 0)
    size = acl.get_tensor_desc_size(output_desc)
    shape = [
        check(acl.get_tensor_desc_dim_v2(output_desc, index))
        for index in range(acl.get_tensor_desc_num_dims(output_desc))
    ]
    data = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs.handle, 0))
    assert check(acl.rt.get_run_mode()) == ACL_HOST
    host = check(acl.rt.malloc_host(size))
    check(acl.rt.memcpy(host, size, data, size, ACL_MEMCPY_DEVICE_TO_HOST))  # the real size, not that of the buffer
    result = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float32).reshape(shape)
    check(acl.rt.free_host(host))
    acl.destroy_tensor_desc(input_desc)
    return result


def main() -> None:
    """Three shapes through one model."""
    with work_folder() as folder, device():
        onnx_path = models.edges(folder / "edges.onnx", ["batch", 3, "height", "width"])
        model = Model(models.convert(onnx_path, folder / "edges", "--input_shape=data:1~2,3,32~256,32~256"))
        assert acl.mdl.get_input_size_by_index(model.desc, 0) == 0
        print("range of the input:", check(acl.mdl.get_input_dims_range(model.desc, 0))["range"])
        inputs, outputs = Dataset([LARGEST]), Dataset([LARGEST])
        for shape in SHAPES:
            image = np.random.default_rng(shape[2]).random(shape, np.float32)
            result = run(model, inputs, outputs, image)
            compare(f"{shape} → {list(result.shape)}", result, models.reference(onnx_path, data=image))
        inputs.destroy()
        outputs.destroy()
        model.unload()


if __name__ == "__main__":
    main()
