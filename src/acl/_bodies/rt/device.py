"""Bodies of `acl.rt`: devices."""

from __future__ import annotations

import os
import zlib
from typing import Any

from acl._bodies._common import milliseconds
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_HCCS = 1
_OVERFLOW_BYTES = 64
_FEATURES = (1, 21)


def set_device(device_id: int) -> None:
    process().registry.set_device(device_id)


def reset_device(device_id: int) -> None:
    process().reset_device(device_id, force=False)


def reset_device_force(device_id: int) -> None:
    process().reset_device(device_id, force=True)


def get_device() -> int:
    return process().current().device.index


def get_device_count() -> int:
    return len(process().devices)


def get_run_mode() -> int:
    return process().settings.run_mode


def set_ts_device(ts_id: int) -> None:
    if ts_id not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"task scheduler {ts_id} is not known", "use aclrtTsId 0 or 1")


def _synchronize(timeout: float | None) -> None:
    owner = process()
    owner.registry.synchronize(owner.current().device, timeout)


def synchronize_device() -> None:
    _synchronize(None)


def synchronize_device_with_timeout(timeout_ms: int) -> None:
    _synchronize(milliseconds(timeout_ms))


def get_device_utilization_rate(device_id: int) -> dict[str, int]:
    busy = process().device(device_id).utilization()
    return {
        "cube_utilization": busy,
        "vector_utilization": busy,
        "aicpu_utilization": 0,
        "memory_utilization": -1,
        "utilization_extend": 0,
    }


def query_device_status(device_id: int) -> int:
    process().device(device_id)
    return 0


def device_task_abort(device_id: int, timeout: int) -> None:
    owner = process()
    device = owner.device(device_id)
    device.need("task_abort", "aborting tasks")
    owner.registry.abort(device, timeout / 1000 if timeout else None)


def get_device_info(device_id: int, attr: int) -> int:
    values = process().device(device_id).attributes()
    if attr not in values:
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"device attribute {attr} has no value here",
            f"known are {', '.join(map(str, values))}",
        )
    return values[attr]


def get_device_capability(device_id: int, feature: int) -> int:
    process().device(device_id)
    if feature not in _FEATURES:
        raise NpuError(codes.INVALID_PARAM, f"device feature {feature} is not known", "use aclrtDevFeatureType 1 or 21")
    return 0


def device_get_stream_priority_range() -> tuple[int, int]:
    return process().current().device.soc.stream_priorities - 1, 0


def get_device_sat_mode() -> int:
    return process().current().device.saturation


def set_device_sat_mode(mode: int) -> None:
    if mode not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"saturation mode {mode} is not known", "use 0 (saturation) or 1 (INF/NaN)")
    process().current().device.saturation = mode


def get_overflow_status(output_addr: int, output_size: int, stream: Stream) -> None:
    memory = process().memory
    if output_size != _OVERFLOW_BYTES:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"the status needs {_OVERFLOW_BYTES} bytes, {output_size} were given",
            f"pass {_OVERFLOW_BYTES}",
        )
    memory.reach(output_addr, output_size, True)
    device = stream.context.device
    stream.submit(
        lambda: memory.store(output_addr, int(device.overflow).to_bytes(_OVERFLOW_BYTES, "little")),
        "GET_OVERFLOW",
        inline=True,
    )


def reset_overflow_status(stream: Stream) -> None:
    device = stream.context.device

    def clear() -> None:
        device.overflow = False

    stream.submit(clear, "RESET_OVERFLOW", inline=True)


def get_device_res_limit(device_id: int, type: int) -> int:
    return process().device(device_id).core_limit(type)


def set_device_res_limit(device_id: int, type: int, value: int) -> None:
    device = process().device(device_id)
    device.limits[type] = device.check_cores(type, value)


def reset_device_res_limit(device_id: int) -> None:
    process().device(device_id).limits.clear()


def _limits_with(limit: int) -> dict[int, int]:
    limits = process().device_limits
    if limit not in limits:
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT, f"device limit {limit} is not known", "use aclrtDeviceLimit 0 to 4"
        )
    return limits


def device_set_limit(limit: int, value: int) -> None:
    limits = _limits_with(limit)
    limits[limit] = value


def device_get_limit(limit: int) -> int:
    limits = _limits_with(limit)
    return limits[limit]


def get_devices_topo(device_id: int, other_device_id: int) -> int:
    owner = process()
    owner.device(device_id), owner.device(other_device_id)
    return _HCCS if device_id != other_device_id else 0


def get_logic_dev_id_by_user_dev_id(id: int) -> int:
    return process().device(id).info.index


def get_user_dev_id_by_logic_dev_id(id: int) -> int:
    for device in process().devices:
        if device.info.index == id:
            return device.index
    raise NpuError(
        codes.RT_INVALID_DEVICEID, f"logic device {id} is not visible to this process", "see ASCEND_RT_VISIBLE_DEVICES"
    )


def _on_machine(id: int) -> int:
    count = len(process().settings.kinds)
    if not 0 <= id < count:
        raise NpuError(
            codes.RT_INVALID_DEVICEID, f"device {id} does not exist, this machine has {count}", "count from 0"
        )
    return id


def get_logic_dev_id_by_phy_dev_id(id: int) -> int:
    return _on_machine(id)


def get_phy_dev_id_by_logic_dev_id(id: int) -> int:
    return _on_machine(id)


def device_get_uuid(device_id: int) -> dict[str, Any]:
    device = process().device(device_id)
    name = f"{os.uname().nodename}/{device.soc.name}/{device.info.index}".encode()
    words = [zlib.crc32(name, seed) for seed in range(4)]
    return {"bytes": [byte for word in words for byte in word.to_bytes(4, "big")]}


def device_get_bare_tgid() -> int:
    return os.getpid()


def device_can_access_peer(device_id: int, peer_device_id: int) -> int:
    _two_devices(device_id, peer_device_id)
    return 1


def _two_devices(first: int, second: int) -> None:
    owner = process()
    owner.device(first), owner.device(second)
    if first == second:
        raise NpuError(codes.INVALID_PARAM, f"device {first} was given twice", "peer access is between two devices")


def device_enable_peer_access(peer_device_id: int, flags: int) -> None:
    device = process().current().device
    _two_devices(device.index, peer_device_id)
    if flags:
        raise NpuError(codes.FEATURE_UNSUPPORTED, f"flags {flags} are reserved", "pass 0")
    device.peers.add(peer_device_id)


def device_disable_peer_access(peer_device_id: int) -> None:
    device = process().current().device
    _two_devices(device.index, peer_device_id)
    device.peers.discard(peer_device_id)


def device_peer_access_status(device_id: int, peer_device_id: int) -> int:
    _two_devices(device_id, peer_device_id)
    return int(peer_device_id in process().device(device_id).peers)
