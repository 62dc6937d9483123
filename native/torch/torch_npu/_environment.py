"""The one door of torch_npu to environment variables. `VARIABLES` is its part of the page `docs/environment.md`.

Values are read when they are asked for: a program may set them between imports. A value that makes no sense is an error which names
the variable, the value and what would do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from softnpu.base.config import Variable

_GROUP = "torch_npu"
_IDLE = "torch_npu: accepted, without effect here"
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_MODES = ("lenient", "chip")


def _rows(group: str, rows: Sequence[tuple[str, str, str]]) -> tuple[Variable, ...]:
    return tuple(Variable(name, default, meaning, group) for name, default, meaning in rows)


VARIABLES = _rows(
    _GROUP,
    (
        (
            "SOFTNPU_TORCH",
            "lenient",
            "`lenient`: everything that torch can do on the CPU works on npu; `chip`: operators and dtypes that the chosen chip's "
            "adapter lacks raise as there, a thread keeps one device, and no other accelerator may be present.",
        ),
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "1", "`0`: `import torch` alone does not bring the npu device."),
        ("TORCH_TRANSFER_TO_NPU", "0", "`1`: `import torch_npu` lets programs written for cuda run on npu."),
        ("TORCH_NPU_DEVICE_CAPABILITY", "–", "Answer of `torch.npu.get_device_capability`, such as `8.0`."),
        ("PROF_CONFIG_PATH", "the working directory", "Folder of `profiler_config.json` for `dynamic_profile`."),
        ("STREAMS_PER_DEVICE", "32", "Streams that a device hands out in turn: 8 or 32."),
        ("TORCH_NPU_COMPACT_ERROR_OUTPUT", "0", "`1` leaves the line with the error code out of messages."),
        (
            "TORCH_NPU_FALLBACK_CPU_DISABLE",
            "0",
            "`1` with `SOFTNPU_TORCH=chip`: an operator that the adapter lacks is an error.",
        ),
        ("TORCH_NPU_USE_COMPATIBLE_IMPL", "0", "`1`: what `torch.npu.are_compatible_impl_enabled` answers at first."),
        (
            "INF_NAN_MODE_ENABLE",
            "1",
            "`0`: float16 results saturate as on chips without inf and nan (exp(12) is 65504, sqrt(-1) is 0).",
        ),
        ("INF_NAN_MODE_FORCE_DISABLE", "0", "`1`: `INF_NAN_MODE_ENABLE=0` holds on chips that have inf and nan too."),
        (
            "PYTORCH_NPU_ALLOC_CONF",
            "–",
            "Options of the caching allocator, `name:value,name:value`; also `PYTORCH_ALLOC_CONF` (not both). With effect: "
            "`max_split_size_mb`, `garbage_collection_threshold`, `roundup_power2_divisions`, `segment_size_mb`, "
            "`large_segment_size_mb`, `base_addr_aligned_kb`.",
        ),
        ("PYTORCH_NO_NPU_MEMORY_CACHING", "0", "`1`: no caching: each tensor is an allocation of the device."),
        (
            "OOM_SNAPSHOT_ENABLE",
            "0",
            "`1`: an out-of-memory error leaves a memory snapshot with the history since the start; `2`: without history.",
        ),
        ("OOM_SNAPSHOT_PATH", "the working directory", "Where that snapshot goes."),
        (
            "TORCH_NPU_WARNING_DISABLE",
            "0",
            "`1`: warnings of torch_npu are not shown (old name `TORCH_NPU_DISABLED_WARNING`).",
        ),
        ("HCCL_IF_IP", "–", "Address of the interface that process groups use."),
        ("HCCL_CONNECT_TIMEOUT", "120", "Seconds that ranks wait for each other at the start, at least 120."),
        ("HCCL_EXEC_TIMEOUT", "1800", "Seconds that a collective may take."),
        ("SET_NPU_DEVICE", "npu:0", "Device of `torch_npu.testing`."),
        ("SEED", "666", "Seed of `torch_npu.testing`."),
        ("IN_CI", "0", "`1`: `torch_npu.testing`'s `run_tests` writes reports with xmlrunner where it is installed."),
    ),
) + _rows(
    _IDLE,
    (
        ("TASK_QUEUE_ENABLE", "1", "Work is over when a call returns: there is no queue to switch off."),
        ("PER_STREAM_QUEUE", "0", "As above."),
        ("ASCEND_LAUNCH_BLOCKING", "0", "Calls block already."),
        ("COMBINED_ENABLE", "0", "Views are never copied, so there are no copies to combine."),
        ("PTCOPY_ENABLE", "0", "Copies between formats are always done by torch."),
        ("DYNAMIC_OP", "–", "Operators are not compiled per shape."),
        ("ACL_OP_COMPILER_CACHE_MODE", "–", "Operators are not compiled; also `ACL_OP_COMPILER_CACHE_DIR`."),
        ("ACL_DEVICE_SYNC_TIMEOUT", "–", "Nothing waits for a device."),
        ("TORCH_NPU_LAZY_FUSION", "0", "`torch.compile` fuses."),
        ("TORCH_NPU_LEGACY_IMPL_LIST", "–", "There is one implementation of the random numbers."),
        ("MULTI_STREAM_MEMORY_REUSE", "1", "Memory that other streams used is free from the next allocation on."),
        ("CPU_AFFINITY_CONF", "0", "Threads are torch's own."),
    ),
)


def raw(name: str, default: str = "") -> str:
    """The value as it stands."""
    return os.environ.get(name, default)


def text(name: str, default: str = "") -> str:
    """The value without blanks around it; `default` when unset or empty."""
    return os.environ.get(name, "").strip() or default


def one_of(name: str, choices: Sequence[str], default: str) -> str:
    """A word from a list."""
    value = text(name, default)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def flag(name: str, default: bool = False) -> bool:
    """0 or 1."""
    return one_of(name, ("0", "1"), "1" if default else "0") == "1"


def number(name: str, default: int, low: int, high: int) -> int:
    """A whole number in a range."""
    written = text(name, str(default))
    try:
        whole = int(written)
    except ValueError:
        whole = low - 1
    if not low <= whole <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, not {written!r}")
    return whole


def chip_mode() -> bool:
    """Whether the chip's own limits hold (`SOFTNPU_TORCH=chip`)."""
    return one_of("SOFTNPU_TORCH", _MODES, "lenient") == "chip"


@contextmanager
def without_autoload() -> Iterator[None]:
    """Inside, `import torch` loads no packages of devices."""
    before = os.environ.get(_AUTOLOAD)
    os.environ[_AUTOLOAD] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_AUTOLOAD]
        else:
            os.environ[_AUTOLOAD] = before
