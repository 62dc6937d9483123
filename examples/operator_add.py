"""One operator without a model: two matrices of 8 by 16 are added (pyACL guide, 9.5.2.1).

`atc --singleop` compiles the operator from a description; `acl.op.execute` finds the result by type, shapes and formats.
"""

from __future__ import annotations

import json
from pathlib import Path

import models
import numpy as np
from common import (
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    check,
    device,
    work_folder,
)

import acl

ACL_INT32, ACL_FORMAT_ND = 3, 2
SHAPE = [8, 16]
FILE = "0_Add_3_2_8_16_3_2_8_16_3_2_8_16.om"


def compile_operator(folder: Path) -> Path:
    """The folder op_models with the compiled operator."""
    tensor = {"format": "ND", "shape": SHAPE, "type": "int32"}
    description = [{"op": "Add", "input_desc": [tensor, tensor], "output_desc": [tensor]}]
    (folder / "add_op.json").write_text(json.dumps(description), encoding="utf-8")
    models.atc(folder, "--singleop=add_op.json", f"--soc_version={models.SOC}", "--output=op_models")
    assert (folder / "op_models" / FILE).exists()
    return folder / "op_models"


class Operand:
    """A tensor on the device with its description and its data buffer."""

    def __init__(self, data: np.ndarray | None = None) -> None:
        self.desc = acl.create_tensor_desc(ACL_INT32, SHAPE, ACL_FORMAT_ND)
        self.size = acl.get_tensor_desc_size(self.desc)
        self.address = check(acl.rt.malloc(self.size, ACL_MEM_MALLOC_HUGE_FIRST))
        self.buffer = acl.create_data_buffer(self.address, self.size)
        if data is not None:
            pointer = acl.util.numpy_to_ptr(data)
            check(acl.rt.memcpy(self.address, self.size, pointer, self.size, ACL_MEMCPY_HOST_TO_DEVICE))

    def read(self) -> np.ndarray:
        """The content."""
        host = check(acl.rt.malloc_host(self.size))
        check(acl.rt.memcpy(host, self.size, self.address, self.size, ACL_MEMCPY_DEVICE_TO_HOST))
        numbers = np.frombuffer(acl.util.ptr_to_bytes(host, self.size), np.int32).reshape(SHAPE)
        check(acl.rt.free_host(host))
        return numbers

    def release(self) -> None:
        """Give everything back."""
        check(acl.destroy_data_buffer(self.buffer))
        check(acl.rt.free(self.address))
        acl.destroy_tensor_desc(self.desc)


def main() -> None:
    """Add, print, check."""
    random = np.random.default_rng(9)
    factor_a, factor_b = (random.integers(0, 99, SHAPE, dtype=np.int32) for _ in range(2))
    print(f"factor_a:\n{factor_a}\nfactor_b:\n{factor_b}")
    with work_folder() as folder:
        op_models = compile_operator(folder)
        with device():
            check(acl.op.set_model_dir(str(op_models)))
            stream = check(acl.rt.create_stream())
            inputs, output = [Operand(factor_a), Operand(factor_b)], Operand()
            attr = acl.op.create_attr()
            check(
                acl.op.execute(
                    "Add",
                    [operand.desc for operand in inputs],
                    [operand.buffer for operand in inputs],
                    [output.desc],
                    [output.buffer],
                    attr,
                    stream,
                )
            )
            check(acl.rt.synchronize_stream(stream))
            result = output.read()
            print(f"ACL output:\n{result}")
            acl.op.destroy_attr(attr)
            for operand in (*inputs, output):
                operand.release()
            check(acl.rt.destroy_stream(stream))
    assert np.array_equal(result, factor_a + factor_b)
    print("the sums are right")


if __name__ == "__main__":
    main()
