"""torch_npu.adapt: operators of one's own for npu, from an `npu_native_functions.yaml`, with bodies in Python or C++.

`load` reads the file, declares and registers what it lists and gives custom operators their names in torch_npu. Bodies are Python
functions (compositions of torch operators, or NumPy with `numpy_body`) or C++ files, which are compiled against the headers of
`include_path`. Where a program writes a number for a tensor (`x + 1`), a body in Python gets that number. `generate` only writes what
`load` would compile: declarations, registration, Python bindings.
"""

from __future__ import annotations

from torch_npu.adapt._bodies import host_view, numpy_body
from torch_npu.adapt._bridge import register
from torch_npu.adapt._file import AdaptError, Functions, read
from torch_npu.adapt._load import Adapter, generate, include_path, load

__all__ = ["AdaptError", "Adapter", "Functions", "generate", "host_view", "include_path", "load", "numpy_body", "read"]


register()
