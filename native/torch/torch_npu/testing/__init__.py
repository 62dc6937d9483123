"""torch_npu.testing: what test files written for Ascend import, see README.md.

torch's own test code derives from the package expecttest. It is no dependency here: where it is not installed, importing this package
puts a stand-in in its place, so that `torch.testing._internal` (device-generic tests, the operator database) can be imported too.
"""

from __future__ import annotations

import importlib.util
import sys


def _provide_expecttest() -> None:
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        from torch_npu.testing import _expecttest  # not where the package is installed

        sys.modules["expecttest"] = _expecttest


_provide_expecttest()
