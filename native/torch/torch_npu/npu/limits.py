"""Core limits of devices and streams, and the functions around faults of hardware, of which there are none here."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu.utils import known_index, soc

_STRESS_KINDS = ("aic", "hccs")
_device_limits: dict[int, dict[str, int]] = {}
_stream_limits: dict[tuple[int, int], dict[str, int]] = {}


def _checked(cube_num: int, vector_num: int, most: dict[str, int]) -> dict[str, int]:
    """The limit that results; -1 leaves a kind of core as it is."""
    wanted = {"cube_core_num": cube_num, "vector_core_num": vector_num}
    for name, value in wanted.items():
        if value != -1 and not 1 <= value <= most[name]:
            raise ValueError(f"{name} should be -1 or in [1, {most[name]}] but got {value}" + pta_error(ErrCode.VALUE))
    return {name: most[name] if value == -1 else value for name, value in wanted.items()}


def _cores(index: int) -> dict[str, int]:
    chip = soc(index)
    return {"cube_core_num": chip.cube_cores, "vector_core_num": chip.vector_cores}


def set_device_limit(device: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limit the cores of a device, once per process. It is remembered and checked; the host computes as before."""
    index = known_index(device)
    if index in _device_limits:
        raise RuntimeError(
            f"set_device_limit can be called once per process for a device, that of device {index} is "
            f"{_device_limits[index]}" + pta_error(ErrCode.INTERNAL)
        )
    _device_limits[index] = _checked(cube_num, vector_num, _cores(index))


def get_device_limit(device: Any) -> dict[str, int]:
    """The cores that a device may use."""
    index = known_index(device)
    return dict(_device_limits.get(index) or _cores(index))


def _stream_key(stream: torch.Stream) -> tuple[int, int]:
    if not isinstance(stream, torch.Stream):
        raise TypeError(
            f"stream should be a torch.npu.Stream but got {type(stream).__name__}" + pta_error(ErrCode.TYPE)
        )
    return stream.device_index, stream.stream_id


def set_stream_limit(stream: torch.Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limit the cores of a stream, below those of its device."""
    key = _stream_key(stream)
    _stream_limits[key] = _checked(cube_num, vector_num, get_device_limit(key[0]))


def get_stream_limit(stream: torch.Stream) -> dict[str, int]:
    """The cores that a stream may use."""
    key = _stream_key(stream)
    return dict(_stream_limits.get(key) or get_device_limit(key[0]))


def reset_stream_limit(stream: torch.Stream) -> None:
    """Let a stream use what its device may use."""
    _stream_limits.pop(_stream_key(stream), None)


def stress_detect(type: str = "aic") -> int:
    """Look for faulty cores or links: 0, there is no hardware that could be faulty."""
    if type not in _STRESS_KINDS:
        raise ValueError(f"type should be in {list(_STRESS_KINDS)} but got {type!r}" + pta_error(ErrCode.VALUE))
    return 0


def stop_device(device_id: int) -> int:
    """Stop what runs on a device: 0, nothing runs after a call has returned."""
    known_index(device_id)
    return 0


def restart_device(device_id: int, rebuild_all_resources: bool = False) -> None:
    """Go on after `stop_device`. Nothing was lost, so nothing is rebuilt, whether it is asked for or not."""
    known_index(device_id)
    del rebuild_all_resources


def check_uce_in_memory(device_id: int) -> int:
    """Whether memory has uncorrectable errors: 0, none."""
    known_index(device_id)
    return 0
