"""The door from integer handles to objects.

A handle is a plain int that can be no address: its top bits hold a mark and the kind, so that a handle given where a
pointer is expected (or the other way round) is noticed. Handles are never used twice, so a stale one is told from an
unknown one without keeping a history.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from softnpu.base.errors import NpuError, codes

_MARK = 0x5E00 << 48
_MARK_MASK = 0xFF00 << 48
_SERIAL_MASK = (1 << 48) - 1
_STEP = 16

_kind_codes: dict[str, int] = {}
_kind_names: dict[int, str] = {}
_kind_lock = threading.RLock()


def _code_of(kind: str) -> int:
    code = _kind_codes.get(kind)
    if code is None:
        with _kind_lock:
            code = _kind_codes.setdefault(kind, len(_kind_codes) + 1)
            _kind_names[code] = kind
    return code


def words(kind: str) -> str:
    """The kind as it is written in a sentence: `tensor_desc` → `tensor description`."""
    return _WORDS.get(kind, kind.replace("_", " "))


def with_article(kind: str) -> str:
    """`an event`, `a stream`."""
    name = words(kind)
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


_WORDS = {
    "tensor_desc": "tensor description",
    "data_buffer": "data buffer",
    "exception_info": "exception info",
    "physical_mem": "physical memory",
    "allocator_desc": "allocator description",
    "channel_desc": "channel description",
    "pic_desc": "picture description",
    "batch_pic_desc": "batch of pictures",
    "stream_desc": "packet description",
    "roi_config": "region",
    "resize_config": "resize configuration",
    "border_config": "border configuration",
    "jpege_config": "JPEG configuration",
    "hist": "histogram",
    "lut_map": "lookup table",
}


def kind_of(value: int) -> str | None:
    """The kind a value claims to be, or None when it is no handle of ours."""
    if value & _MARK_MASK != _MARK or value >> 64:
        return None
    return _kind_names.get((value >> 48) & 0xFF)


class HandleTable:
    """Live objects by handle. One table per process object; single operations are atomic under the GIL."""

    def __init__(self, explain: Callable[[int], str] = lambda _: "") -> None:
        self._explain = explain  # says what else a value may be, for messages
        self._live: dict[int, tuple[str, Any]] = {}
        self._serial = itertools.count(1)

    def add(self, kind: str, obj: Any) -> int:
        """Give an object a handle."""
        handle = _MARK | _code_of(kind) << 48 | next(self._serial) * _STEP
        self._live[handle] = (kind, obj)
        return handle

    def get(self, kind: str, handle: int) -> Any:
        """The object behind a handle of this kind; raises the documented code for a null, stale or wrong one."""
        entry = self._live.get(handle)
        if entry is not None and entry[0] == kind:
            return entry[1]
        raise self.error(kind, handle)

    def peek(self, kind: str, handle: int) -> Any | None:
        """The object behind a handle, or None."""
        entry = self._live.get(handle)
        return entry[1] if entry is not None and entry[0] == kind else None

    def remove(self, kind: str, handle: int) -> Any:
        """Take a handle out of the table and return its object; raises as `get` does."""
        entry = self._live.get(handle)
        if entry is None or entry[0] != kind or self._live.pop(handle, None) is None:
            raise self.error(kind, handle)
        return entry[1]

    def discard(self, handle: int) -> None:
        """Forget a handle if it is there."""
        self._live.pop(handle, None)

    def live(self, kind: str | None = None) -> list[tuple[int, str, Any]]:
        """A snapshot of (handle, kind, object), of one kind or of all."""
        return [(h, k, o) for h, (k, o) in list(self._live.items()) if kind is None or k == kind]

    def __len__(self) -> int:
        return len(self._live)

    def error(self, kind: str, handle: int) -> NpuError:
        """The error that says why `handle` is no live handle of this kind."""
        name = words(kind)
        if handle == 0:
            return NpuError(
                codes.INVALID_PARAM, f"the {name} handle is null (0)", f"create the {name} first and check its ret"
            )
        claimed = kind_of(handle)
        if claimed is None:
            explanation = self._explain(handle)
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{handle:#x} is no {name} handle{', ' + explanation if explanation else ''}",
                f"pass the handle that creating the {name} returned",
            )
        if claimed != kind:
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{handle:#x} is {with_article(claimed)} handle, {with_article(kind)} handle is needed here",
                "check the order of the arguments",
            )
        return NpuError(
            codes.RT_PARAM_INVALID,
            f"the {name} {handle:#x} was destroyed already (or the process was finalised since)",
            "do not use a handle after its destroy call; set the variable to None there",
        )
