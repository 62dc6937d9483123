"""Memory of devices: how much is in use, how much may be, and where it comes from."""

# ruff: noqa: F401 (torch.npu.memory is also where programs find what memory_trace and pools define)
from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import torch

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import stream_ids as ids
from torch_npu.npu import alloc_conf
from torch_npu.npu._lazy import _lazy_init, is_initialized
from torch_npu.npu.device import mem_get_info
from torch_npu.npu.memory_trace import (
    _dump_snapshot,
    _record_memory_history,
    _save_memory_usage,
    _save_segment_usage,
    _snapshot,
    memory_snapshot,
)
from torch_npu.npu.pools import (
    MemPool,
    NPUPluggableAllocator,
    change_current_allocator,
    get_allocator_backend,
    use_mem_pool,
)
from torch_npu.npu.utils import known_index

# ---- the allocator -----------------------------------------------------------------------------------------------------


def caching_allocator_alloc(size: int, device: Any = None, stream: torch.Stream | int | None = None) -> int:
    """The address of a block of device memory for another library; `caching_allocator_delete` gives it back."""
    index = known_index(device)
    marked = ids.current_id(index)
    if isinstance(stream, torch.Stream):
        number = stream.stream_id
    elif isinstance(stream, int):
        number = ids.plain(stream)
    elif stream is None:
        number = ids.plain(marked)
    else:
        raise TypeError(
            "Invalid type for stream argument, must be `torch_npu.npu.Stream` or `int` representing a pointer to a "
            f"existing stream, but got {type(stream).__name__}" + pta_error(ErrCode.TYPE)
        )
    return _C._raw_allocate(size, index, number | ids.pool_of(marked) << ids.POOL_SHIFT)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back a block of `caching_allocator_alloc`."""
    _C._raw_free(mem_ptr)


def empty_cache() -> None:
    """Give segments that hold nothing back to the devices."""
    if is_initialized():
        _C._empty_cache()


def empty_virt_addr_cache() -> None:
    """Give back address space that was kept. None is: a segment's addresses go with its memory."""
    _lazy_init()


def _set_allocator_settings(env: str) -> None:
    """Other options of the caching allocator, as in `PYTORCH_NPU_ALLOC_CONF`, from now on."""
    _lazy_init()
    alloc_conf.apply(env)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a device's memory that this process may use."""
    return _C._get_memory_fraction(known_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process use only a part of a device's memory; above it allocations are out of memory."""
    index = known_index(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`" + pta_error(ErrCode.TYPE))
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1" + pta_error(ErrCode.VALUE))
    _C._set_memory_fraction(fraction, index)


# ---- figures -----------------------------------------------------------------------------------------------------------


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The figures of the allocator by name, pool and kind; empty before initialisation."""
    if not is_initialized():
        return {}
    alloc_conf.ensure()
    return _C._memory_stats(known_index(device))


def _flat(nested: dict[str, Any]) -> OrderedDict[str, int]:
    """Names joined with dots, in order."""
    flat: dict[str, int] = {}

    def flatten(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                flatten(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat[prefix] = value

    flatten("", nested)
    return OrderedDict(sorted(flat.items()))


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """The figures of the allocator, such as "allocated_bytes.all.peak", in order of their names."""
    return _flat(memory_stats_as_nested_dict(device))


def _bytes(device: Any, name: str, kind: str) -> int:
    stats = memory_stats_as_nested_dict(device)
    return stats[name]["all"][kind] if stats else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors use now."""
    return _bytes(device, "allocated_bytes", "current")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors used since the start or the last reset of peaks."""
    return _bytes(device, "allocated_bytes", "peak")


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds now."""
    return _bytes(device, "reserved_bytes", "current")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held since the start or the last reset of peaks."""
    return _bytes(device, "reserved_bytes", "peak")


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let peaks begin at what is in use now."""
    _C._reset_peak_stats(known_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let sums of allocations and frees begin at zero."""
    _C._reset_accumulated_stats(known_index(device))


def _old(name: str, new: str) -> None:
    warnings.warn(f"torch.npu.{name} has been renamed to torch.npu.{new}", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """The old name of `memory_reserved`."""
    _old("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The old name of `max_memory_reserved`."""
    _old("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """Resets all peaks, as `reset_peak_memory_stats`."""
    _old("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Resets all peaks, as `reset_peak_memory_stats`."""
    _old("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


# ---- the table ---------------------------------------------------------------------------------------------------------

_WIDTH = 75
_COLUMNS = ("current", "peak", "allocated", "freed")
_ROWS = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "NPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "NPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
_SINGLE_ROWS = (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize NPU segments"))
_POOLS = (("large_pool", "      from large pool"), ("small_pool", "      from small pool"))


def _scaled(value: int, guide: int, units: tuple[str, ...], step: int, limit: int) -> tuple[int, str]:
    """A number and its unit; the guide (the row's total) chooses the unit, so that a row has one."""
    unit = units[0]
    for larger in units[1:]:
        if guide < limit:
            break
        unit, value, guide = larger, value // step, guide // step
    return value, unit


def _cell(value: int, guide: int, is_size: bool) -> str:
    if is_size:
        number, unit = _scaled(value, guide, ("B  ", "KiB", "MiB", "GiB", "TiB", "PiB"), 1024, 768 * 1024)
        return f"{number:6d} {unit}"
    number, unit = _scaled(value, guide, (" ", "K", "M"), 1000, 750 * 1000)
    return f"{number:7d} {unit} "


def _line(title: str, row: dict[str, int], guide: dict[str, int], is_size: bool) -> str:
    cells = " | ".join(_cell(row[name], guide[name], is_size) for name in _COLUMNS)
    return f"| {title:<21} | {cells} |"


def _padded(text: str) -> str:
    return f"|{text:<{_WIDTH}}|"


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The figures of the allocator as a table; abbreviated without the two pools."""
    index = known_index(device)
    stats = memory_stats_as_nested_dict(index)
    counts = f"{'':10}NPU OOMs: {stats['num_ooms']:<12d} | {'':6} aclrtMalloc retries: {stats['num_alloc_retries']:<8d}"
    inner = "|" + "-" * _WIDTH + "|"
    double = "|" + "=" * _WIDTH + "|"
    lines = [double, _padded(f"{'':17} PyTorch NPU memory summary, device ID {index}"), inner, _padded(counts), double]
    lines.append("|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |")
    for name, title, is_size in _ROWS:
        rows = stats[name]
        lines += [inner, _line(title, rows["all"], rows["all"], is_size)]
        if not abbreviated:
            lines += [_line(label, rows[pool], rows["all"], is_size) for pool, label in _POOLS]
    for name, title in _SINGLE_ROWS:
        lines += [inner, _line(title, stats[name], stats[name], False)]
    return "\n".join([*lines, double, ""])


# ---- pinned host memory ------------------------------------------------------------------------------------------------


def host_empty_cache() -> None:
    """Give back pinned memory that is kept for the next pinned tensor."""
    _C._host_empty_cache()


def host_memory_stats() -> OrderedDict[str, int]:
    """Figures of pinned memory, such as "active_bytes.current": in use; "allocated_bytes": with what is kept."""
    return _flat(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Figures of pinned memory by name and kind; empty before initialisation."""
    return _C._host_memory_stats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Let sums of pinned allocations and frees begin at zero."""
    _C._host_reset_accumulated_stats()


def reset_peak_host_memory_stats() -> None:
    """Let peaks of pinned memory begin at what is in use now."""
    _C._host_reset_peak_stats()
