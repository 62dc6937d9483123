"""Bodies of `acl.rt`: core groups and memory faults, which no simulated chip has."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import raw, refuses
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.runtime.process import process

_MAX_FAULTS = 20


def _no_groups() -> NpuError:
    return NpuError(
        codes.RT_FEATURE_NOT_SUPPORT, "the simulated chips have no core groups", "leave the group calls out"
    )


@refuses
def set_group(group_id: int) -> None:
    raise _no_groups()


@refuses
def get_group_count(num: int) -> int:
    raise _no_groups()


def create_group_info() -> int:
    return process().handles.add("group_info", {})


@raw
def destroy_group_info(info: int) -> None:
    process().handles.remove("group_info", info)


@refuses
def get_all_group_info(info: dict[str, Any]) -> None:
    raise _no_groups()


@refuses
def get_group_info_detail(info: dict[str, Any], group_id: int, attr: int) -> list[int]:
    raise Raise(RuntimeError("the simulated chips have no core groups"))


def get_mem_uce_info(device_id: int, num: int) -> list[dict[str, Any]]:
    process().device(device_id)
    if not 1 <= num <= _MAX_FAULTS:
        raise NpuError(codes.INVALID_PARAM, f"{num} faults were asked for", f"ask for 1 to {_MAX_FAULTS}")
    return []


def mem_uce_repair(device_id: int, faults: list[dict[str, Any]]) -> None:
    process().device(device_id)
    if len(faults) > _MAX_FAULTS:
        raise NpuError(codes.INVALID_PARAM, f"{len(faults)} faults were given", f"give at most {_MAX_FAULTS}")
    if faults:
        raise NpuError(
            codes.RT_PARAM_INVALID, "the device has no memory fault to repair", "repair what get_mem_uce_info reported"
        )
