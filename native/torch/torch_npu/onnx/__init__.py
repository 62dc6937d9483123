"""torch_npu.onnx: operators of npu in ONNX files. Importing it is what makes `torch.onnx.export` know them.

The operators of `NODES` become one node `npu::NPU…` each, which atc reads; those of `PLAIN` are exported as the aten operators
that they consist of. `define` gives any custom operator of a file its meaning, so that the file can be converted and run.
"""

from torch_npu.onnx._define import define
from torch_npu.onnx._nodes import NODES, PLAIN, install

__all__ = ["NODES", "PLAIN", "define"]

install()
