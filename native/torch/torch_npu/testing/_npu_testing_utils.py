"""What torch's operator tests leave out on npu: a list, and how it reaches torch's OpInfo."""

from __future__ import annotations

import functools
import json
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SPARSE = "sparse tensors are refused on npu"
_JITERATOR = "kernels written in CUDA"

# Operators by name, with the reason; tests that torch's own TestCase leaves out are in torch's table, see update_skip_list.
SKIP_LIST: dict[str, str] = {
    "sparse.sampled_addmm": _SPARSE,
    "sparse.mm": _SPARSE,
    "to_sparse": _SPARSE,
    "jiterator_unary": _JITERATOR,
    "jiterator_binary": _JITERATOR,
    "jiterator_4inputs_with_extra_args": _JITERATOR,
    "jiterator_binary_return_by_ref": _JITERATOR,
    "jiterator_2inputs_2outputs": _JITERATOR,
}


def update_skip_list(entries: Mapping[str, Any] | str | Path | None = None) -> None:
    """Add to what is left out: a mapping, or a JSON file with one; nothing to add only puts the list to work.

    "to_sparse": "why" skips an operator in tests over an operator database. "test_add (__main__.TestOps)": ["why", []] is an entry
    of torch's table of disabled tests (the second part: platforms, all when empty).
    """
    rows: Any = json.loads(Path(entries).read_text()) if isinstance(entries, (str, Path)) else entries
    from torch.testing._internal import common_utils

    for name, what in (rows or {}).items():
        if name.endswith(")"):
            common_utils.disabled_tests_dict[name] = what
        elif isinstance(what, str):
            SKIP_LIST[name] = what
        else:
            raise TypeError(f"the reason to skip the operator {name} must be text, not {what!r}")
    install()


def get_decorators(self: Any, test_class: str, test_name: str, device: str, dtype: Any, param_kwargs: Any) -> list[Any]:
    """The decorators of an OpInfo for one test; on npu with a skip for what is in the list."""
    decorators = list(_torch_get_decorators()(self, test_class, test_name, device, dtype, param_kwargs))
    if str(device).partition(":")[0] in ("npu", "privateuse1") and self.name in SKIP_LIST:
        decorators.append(unittest.skip(SKIP_LIST[self.name]))
    return decorators


@functools.cache
def _torch_get_decorators() -> Any:
    """torch's own method, taken before ours is in its place."""
    from torch.testing._internal.opinfo.core import OpInfo

    return OpInfo.get_decorators


def install() -> None:
    """torch's OpInfo asks us for its decorators from now on."""
    from torch.testing._internal.opinfo.core import OpInfo

    _torch_get_decorators()
    OpInfo.get_decorators = get_decorators  # type: ignore[method-assign]
