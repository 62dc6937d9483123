"""Devices: which there are, which is in use, what they are and what they hold."""

from __future__ import annotations

import re
import time
import uuid
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch

from torch_npu import _C, _environment
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import stream_ids as ids
from torch_npu._runtime.devices import process
from torch_npu.npu._lazy import _lazy_init, visible_count
from torch_npu.npu.utils import _get_device_index, current_index, known_index, soc

_MEBI = 1 << 20
_INVALID_DEVICE = 107001  # ACL_ERROR_RT_INVALID_DEVICEID
_first_sample = (time.monotonic_ns(), time.process_time_ns())
_samples: dict[int, tuple[int, int]] = {}


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def device_count() -> int:
    """How many devices this process may use (ASCEND_RT_VISIBLE_DEVICES, read anew until initialisation)."""
    return visible_count()


def current_device() -> int:
    """The index of the device in use in this thread."""
    return current_index()


def set_device(device: int | str | torch.device) -> None:
    """Use another device in this thread; a negative index changes nothing."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _switch(index)


def _switch(index: int) -> None:
    if index >= _C._get_device_count():
        raise RuntimeError(
            f"set_device NPU function error: SetDevice, error code is {_INVALID_DEVICE}: Invalid device id {index}, "
            f"there are {_C._get_device_count()} npu devices" + pta_error(ErrCode.ACL)
        )
    _C._set_device(index)


def synchronize(device: int | str | torch.device | None = None) -> None:
    """Wait for the device. Work is over when a call returns, so there is nothing to wait for."""
    known_index(device)
    for listener in ids.listeners:
        listener.host_waits(None)


class device:
    """Another device inside a `with` block; None or a negative index leave the current one."""

    def __init__(self, device: int | str | torch.device | None) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *_: object) -> Literal[False]:
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """The device of a tensor or storage inside a `with` block; for one that is not on npu nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_npu else -1)


def _exchange_device(index: int) -> int:
    """Switch and tell the device of before; a negative index does nothing and tells -1."""
    if index < 0:
        return -1
    before = current_index()
    _switch(index)
    return before


def _maybe_exchange_device(index: int) -> int:
    """As `_exchange_device`; torch has two since CUDA may avoid creating a context, which does not exist here."""
    return _exchange_device(index)


@dataclass(frozen=True, repr=False)
class _NPUDeviceProperties:
    """What a device is. The fields after `uuid` are there because programs for CUDA read them."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    uuid: uuid.UUID
    major: int = 0
    minor: int = 0
    is_multi_gpu_board: int = 0
    is_integrated: int = 0
    multi_processor_count: int = 0
    max_threads_per_multi_processor: int = 0
    warp_size: int = 0
    regs_per_multiprocessor: int = 0
    gcnArchName: str = ""

    def __repr__(self) -> str:
        return (
            f"_NPUDeviceProperties(name='{self.name}', total_memory={self.total_memory // _MEBI}MB, "
            f"cube_core_num={self.cube_core_num}, vector_core_num={self.vector_core_num}, uuid={self.uuid}, "
            f"L2_cache_size={self.L2_cache_size // _MEBI}MB)"
        )


def get_device_name(device: int | str | torch.device | None = None) -> str:
    """The chip's name, such as Ascend910B3."""
    return soc(device).name


def get_device_properties(device: int | str | torch.device | None = None) -> _NPUDeviceProperties:
    """Name, memory and cores of a device."""
    info = process().devices[known_index(device)].info
    return _NPUDeviceProperties(
        name=info.soc.name,
        total_memory=info.memory_bytes,
        cube_core_num=info.soc.cube_cores,
        vector_core_num=info.soc.vector_cores,
        L2_cache_size=info.soc.l2_bytes,
        uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"softnpu/{uuid.getnode():x}/{info.index}"),
        multi_processor_count=info.soc.ai_cores,
    )


def get_device_capability(device: int | str | torch.device | None = None) -> tuple[int, int] | None:
    """None: a chip has no CUDA capability, unless TORCH_NPU_DEVICE_CAPABILITY says which one to report."""
    known_index(device)
    wanted = _environment.text("TORCH_NPU_DEVICE_CAPABILITY")
    if not wanted:
        warnings.warn(
            "torch.npu.get_device_capability isn't implemented! Set TORCH_NPU_DEVICE_CAPABILITY=8.0 to report one.",
            stacklevel=2,
        )
        return None
    match = re.fullmatch(r"(\d+)\.(\d+)", wanted)
    if match is None:
        raise ValueError(
            f"TORCH_NPU_DEVICE_CAPABILITY should look like 8.0 but got {wanted!r}" + pta_error(ErrCode.VALUE)
        )
    return int(match[1]), int(match[2])


def mem_get_info(device: int | str | torch.device | None = None) -> tuple[int, int]:
    """Free and total bytes of a device, counting what other processes use."""
    return torch._C._accelerator_getMemoryInfo(known_index(device))


def utilization(device: int | str | torch.device | None = None) -> int:
    """Busy percentage of a device since this was last asked.

    Work of pyACL is timed. Operators of PyTorch are not, that would cost as much as a small one: for a device that holds tensors
    of this process its CPU time counts, in which they run.
    """
    index = known_index(device)
    timed = process().devices[index].utilization()
    sample = (time.monotonic_ns(), time.process_time_ns())
    before = _samples.get(index, _first_sample)
    _samples[index] = sample
    if not _C._memory_stats(index)["allocated_bytes"]["all"]["peak"]:
        return timed
    used = 100 * (sample[1] - before[1]) / max(1, sample[0] - before[0])
    return max(timed, min(100, round(used)))


def can_device_access_peer(device_id: int, peer_device_id: int) -> bool:
    """Whether a device can read another one's memory: all can, and none is its own peer."""
    return known_index(device_id) != known_index(peer_device_id)


def current_blas_handle() -> None:
    """There is none on npu."""
    warnings.warn("NPU does not use blas handle.", stacklevel=2)


def ipc_collect() -> None:
    """Give back memory that other processes no longer use. Nothing is held for them, so there is nothing to do."""
    _lazy_init()


def set_op_timeout_ms(timeout: int) -> None:
    """The longest time that work of a stream may take in pyACL; PyTorch operators run to their end here."""
    if not isinstance(timeout, int) or timeout < 0:
        raise ValueError(
            f"timeout should be a number of milliseconds >= 0 but got {timeout!r}" + pta_error(ErrCode.VALUE)
        )
    process().execute_timeout_us = timeout * 1000


def _sleep(cycles: int) -> None:
    """Keep the device busy for so many cycles of its clock."""
    time.sleep(cycles / (soc(None).aicore_mhz * 1e6))
