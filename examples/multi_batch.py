"""Eight pictures per run of a model (pyACL guide, 7.4): collect inputs until a batch is full, run what is left at the end.

Slips of the guide that are mended: `for i in len(files_list)`, `cnt++`, and `single_buff_size` as a float.
"""

from __future__ import annotations

import models
import numpy as np
from common import ACL_MEMCPY_HOST_TO_DEVICE, Model, check, compare, device, work_folder

import acl

BATCH_SIZE = 8
PICTURES = 19  # two full batches and three more
SIDE = 64


def main() -> None:
    """Run all pictures in batches, compare each result with onnxruntime."""
    pictures = [(models.picture(SIDE, SIDE, seed).transpose(2, 0, 1) / np.float32(255)) for seed in range(PICTURES)]
    with work_folder() as folder:
        onnx_path = models.classifier(folder / "classifier.onnx", [BATCH_SIZE, 3, SIDE, SIDE])
        om = models.convert(onnx_path, folder / "classifier", f"--input_shape=data:{BATCH_SIZE},3,{SIDE},{SIDE}")
        with device():
            results = classify(om, pictures)
        filled = np.zeros((-(-PICTURES // BATCH_SIZE) * BATCH_SIZE, 3, SIDE, SIDE), np.float32)
        filled[:PICTURES] = pictures
        wanted = [
            models.reference(onnx_path, data=filled[at : at + BATCH_SIZE]) for at in range(0, PICTURES, BATCH_SIZE)
        ]
    compare(f"{len(results)} pictures", np.stack(results), np.concatenate(wanted)[:PICTURES])


def classify(om, pictures: list[np.ndarray]) -> list[np.ndarray]:
    """The scores of every picture."""
    model = Model(om)
    inputs, outputs = model.inputs(), model.outputs()
    single_buff_size = acl.mdl.get_input_size_by_index(model.desc, 0) // BATCH_SIZE
    start = inputs.buffers[0][0]
    results: list[np.ndarray] = []
    count = position = 0
    for number, image in enumerate(pictures):
        data = image.tobytes()
        assert len(data) == single_buff_size
        source = acl.util.bytes_to_ptr(data)
        check(acl.rt.memcpy(start + position, single_buff_size, source, single_buff_size, ACL_MEMCPY_HOST_TO_DEVICE))
        position += single_buff_size
        count += 1
        if count == BATCH_SIZE or number == len(pictures) - 1:  # full, or the rest
            check(acl.mdl.execute(model.id, inputs.handle, outputs.handle))
            results += list(outputs.read(0, (BATCH_SIZE, 10))[:count])
            print(f"ran a batch with {count} pictures")
            count = position = 0
    inputs.destroy()
    outputs.destroy()
    model.unload()
    return results


if __name__ == "__main__":
    main()
