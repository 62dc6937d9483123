"""Options of the caching allocator: `PYTORCH_NPU_ALLOC_CONF` or `PYTORCH_ALLOC_CONF`, and `PYTORCH_NO_NPU_MEMORY_CACHING`.

They are read before the first segment is made. Without effect here, since nothing of the kind exists: `page_size`,
`multi_stream_lazy_reclaim`, `pinned_use_background_threads`, `pin_memory_expandable_segments`, `pinned_mem_register`.
`expandable_segments:True` warns: segments keep their size, since the devices of softnpu map a range of addresses as a whole.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

from torch_npu import _C, _environment
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import connection
from torch_npu.npu import memory_trace

MIB = 1 << 20
_NAMES = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_RANGES = 16  # of sizes that roundup_power2_divisions knows: up to 1 MiB, 2 MiB, … and all above
_PLAIN_ALIGNMENT = 64


def _bad(name: str, value: str, wanted: str) -> ValueError:
    return ValueError(
        f"option {name}:{value} of the caching allocator is not possible; it must be {wanted}"
        + pta_error(ErrCode.VALUE)
    )


def _whole(low: int, high: float = math.inf) -> Callable[[str, str], int]:
    wanted = f"a whole number from {low} to {high}" if high < math.inf else f"a whole number of at least {low}"

    def read(name: str, text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise _bad(name, text, wanted)
        return int(text)

    return read


def _truth(name: str, text: str) -> bool:
    if text not in ("True", "False"):
        raise _bad(name, text, "True or False")
    return text == "True"


def _threshold(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise _bad(name, text, "a number above 0 and below 1")
    return value


def _page_size(name: str, text: str) -> str:
    if text.lower() != "1g":
        raise _bad(name, text, "1g")
    return text


def _power(name: str, whole: str, text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1 or value & value - 1:
        raise _bad(name, whole, "a power of two, or a list as [256:1,512:2,>:8] of powers of two")
    return value


def _divisions(name: str, text: str) -> list[int]:
    """Into how many parts each range between two powers of two is divided, from 1 MiB on."""
    if not text.startswith("["):
        return [_power(name, text, text)] * _RANGES
    divisions = [0] * _RANGES
    filled_upto = 0
    for entry in text[1:-1].split(","):
        size, _, parts = entry.partition(":")
        number = _power(name, text, parts.strip())
        end = _RANGES if size.strip() == ">" else min(_RANGES, _power(name, text, size.strip()).bit_length())
        divisions[filled_upto:end] = [number] * max(0, end - filled_upto)
        filled_upto = max(filled_upto, end)
    return [parts_here or divisions[max(filled_upto - 1, 0)] for parts_here in divisions]


_READERS: dict[str, Callable[[str, str], Any]] = {
    "max_split_size_mb": _whole(21),
    "garbage_collection_threshold": _threshold,
    "expandable_segments": _truth,
    "base_addr_aligned_kb": _whole(0, 16),
    "page_size": _page_size,
    "segment_size_mb": _whole(20, 512),
    "large_segment_size_mb": _whole(11),
    "roundup_power2_divisions": _divisions,
    "multi_stream_lazy_reclaim": _truth,
    "pinned_use_background_threads": _truth,
    "pin_memory_expandable_segments": _truth,
    "pinned_mem_register": _truth,
}


def _pieces(text: str) -> list[str]:
    """The parts between commas that stand outside of brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces if piece.strip()]


def parse(text: str) -> dict[str, Any]:
    """The options by name; an unknown one or a value out of range is an error."""
    options = {}
    for piece in _pieces(text):
        name, colon, value = (part.strip() for part in piece.partition(":"))
        if name not in _READERS or not colon:
            raise ValueError(
                f"the caching allocator has no option {piece!r}; write name:value with one of {', '.join(_READERS)}"
                + pta_error(ErrCode.PARAM)
            )
        if value.startswith("[") != value.endswith("]"):
            raise _bad(name, value, "closed with the bracket it begins with")
        options[name] = _READERS[name](name, value)
    return options


def apply(text: str) -> None:
    """Let these options hold from now on, and no others; blocks in use stay as they are."""
    options = parse(text)
    if options.get("expandable_segments"):
        warnings.warn("expandable_segments:True has no effect: segments of this device keep their size", stacklevel=2)
    kilobytes = options.get("base_addr_aligned_kb", 0)
    connection.alignment = (
        max(_PLAIN_ALIGNMENT, 1 << (kilobytes * 1024 - 1).bit_length()) if kilobytes else _PLAIN_ALIGNMENT
    )
    _C._set_allocator_options(
        options.get("max_split_size_mb", 0) * MIB,
        options.get("garbage_collection_threshold", 0.0),
        options.get("roundup_power2_divisions", []),
        options.get("segment_size_mb", 0) * MIB,
        options.get("large_segment_size_mb", 0) * MIB,
        _state.no_caching or _environment.flag("PYTORCH_NO_NPU_MEMORY_CACHING"),
    )
    _state.done, _state.text = True, text


class _State:
    """Whether the options of the environment, or others, hold already."""

    def __init__(self) -> None:
        self.done = self.no_caching = False
        self.text = ""
        self.lock = threading.RLock()


_state = _State()


def stop_caching() -> None:
    """From now on blocks come and go one by one."""
    _state.no_caching = True
    if _state.done:
        apply(_state.text)


def ensure() -> None:
    """Take the options of the environment, once."""
    if _state.done:
        return
    with _state.lock:
        if _state.done:  # by another thread meanwhile
            return  # type: ignore[unreachable]
        texts = [_environment.text(name) for name in _NAMES]
        if all(texts):
            raise ValueError(
                f"{_NAMES[0]} ({texts[0]!r}) and {_NAMES[1]} ({texts[1]!r}) are both set; unset one"
                + pta_error(ErrCode.PARAM)
            )
        apply(texts[0] or texts[1])
        memory_trace.record_for_snapshots()


connection.hooks.first_segment = ensure
_C._on_settings(apply, list(_READERS))  # torch's own door to them: torch._C._accelerator_setAllocatorSettings
