"""The data types by number; `torch_npu/_runtime/dtype_numbers.py` puts them here."""

from torch_npu._runtime.dtype_numbers import DType as DType
