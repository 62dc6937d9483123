"""Bodies of `acl.rt`: streams."""

from __future__ import annotations

from typing import Any, TypeVar

from acl._bodies._common import milliseconds
from softnpu.base.errors import NpuError, Raise, codes
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_T = TypeVar("_T")
_FLAGS = 0x3F
_FAILURE_MODE, _OVERFLOW, _USER_TAG, _CACHE, _PRIORITY = range(1, 6)
_KEYS = {_FAILURE_MODE: "failureMode", _OVERFLOW: "overflowSwitch", _USER_TAG: "userCustomTag"}


def create_stream() -> int:
    return process().registry.create_stream().handle


def create_stream_with_config(priority: int, flag: int) -> int:
    if flag & ~_FLAGS:
        raise NpuError(
            codes.INVALID_PARAM, f"stream flag {flag:#x} is not known", "use the ACL_STREAM_… bits 0x1 to 0x20"
        )
    owner = process()
    lowest = owner.current().device.soc.stream_priorities - 1
    return owner.registry.create_stream(min(priority, lowest), flag).handle


def _destroy(stream: Stream, wait: bool) -> None:
    if stream.is_default:
        raise NpuError(codes.RT_PARAM_INVALID, "the default stream cannot be destroyed", "it ends with its context")
    if wait:
        stream.refuse_inside()
    owner = process()
    owner.handles.remove("stream", stream.handle)  # of two threads that destroy it, one gets past here
    owner.registry.end_stream(stream, wait)


def destroy_stream(stream: Stream) -> None:
    _destroy(stream, wait=True)


def destroy_stream_force(stream: Stream) -> None:
    _destroy(stream, wait=False)


def synchronize_stream(stream: Stream) -> None:
    stream.synchronize()


def synchronize_stream_with_timeout(stream: Stream, timeout_ms: int) -> None:
    stream.synchronize(milliseconds(timeout_ms))


def stream_query(stream: Stream) -> int:
    return int(stream.queue.busy())


def stream_abort(stream: Stream) -> None:
    stream.context.device.need("task_abort", "aborting tasks")
    stream.abort()


def stream_get_id(stream: Stream) -> int:
    return stream.id


def get_stream_available_num() -> int:
    device = process().current().device
    return device.soc.max_streams - len(device.stream_ids)


def _on_off(flag: int) -> int:
    if flag not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"switch {flag} is neither 0 nor 1", "pass 0 (off) or 1 (on)")
    return flag


def set_stream_overflow_switch(stream: Stream, flag: int) -> None:
    stream.overflow_switch = _on_off(flag)


def get_stream_overflow_switch(stream: Stream) -> int:
    return stream.overflow_switch


def set_stream_failure_mode(stream: Stream, mode: int) -> None:
    if mode not in (0, 1):
        raise NpuError(codes.RT_PARAM_INVALID, f"failure mode {mode} is not known", "use 0 (continue) or 1 (stop)")
    if stream.failure_mode_set:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"the failure mode of stream {stream.id} was set before",
            "it can be set once per stream",
        )
    stream.failure_mode_set = True
    for affected in tuple(stream.context.streams) if mode else (stream,):
        affected.failure_mode = mode


def _dictionary_value(value_dict: dict[str, Any], key: str, kind: type[_T]) -> _T:
    value = value_dict.get(key)
    if not isinstance(value, kind):
        raise Raise(ValueError(f"the value of {key} must be of type {kind.__name__}, not {type(value).__name__}"))
    return value


def set_stream_attribute(stream: Stream, type: int, value_dict: dict[str, Any]) -> None:
    if type not in _KEYS:
        _dictionary_value(value_dict, "reserved", list)
        raise NpuError(
            codes.INVALID_PARAM,
            f"stream attribute {type} cannot be set",
            "use 1 (failureMode), 2 (overflowSwitch) or 3 (userCustomTag)",
        )
    value = _dictionary_value(value_dict, _KEYS[type], int)
    if type == _FAILURE_MODE:
        set_stream_failure_mode(stream, value)
    elif type == _OVERFLOW:
        stream.overflow_switch = _on_off(value)
    else:
        stream.user_tag = value & 0xFFFFFFFF


def get_stream_attribute(stream: Stream, type: int) -> dict[str, Any]:
    values = {_FAILURE_MODE: stream.failure_mode, _OVERFLOW: stream.overflow_switch, _USER_TAG: stream.user_tag}
    if type in values:
        return {_KEYS[type]: values[type]}
    if type in (_CACHE, _PRIORITY):
        return {"reserved": [stream.priority if type == _PRIORITY else 0, 0, 0, 0]}
    raise NpuError(codes.INVALID_PARAM, f"stream attribute {type} is not known", "use aclrtStreamAttr 1 to 5")


def get_stream_res_limit(stream: Stream, type: int) -> int:
    whole = stream.context.device.core_limit(type)
    return stream.limits.get(type, whole)


def set_stream_res_limit(stream: Stream, type: int, value: int) -> None:
    stream.limits[type] = stream.context.device.check_cores(type, value)


def reset_stream_res_limit(stream: Stream) -> None:
    stream.limits.clear()


def use_stream_res_in_current_thread(stream: Stream) -> None:
    process().registry.local.limits = stream


def unuse_stream_res_in_current_thread(stream: Stream) -> None:
    local = process().registry.local
    if getattr(local, "limits", None) is not stream:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"stream {stream.id} is not in use for the limits of this thread",
            "pair it with use_stream_res_in_current_thread",
        )
    local.limits = None


def get_res_in_current_thread(type: int) -> int:
    owner = process()
    stream: Stream | None = getattr(owner.registry.local, "limits", None)
    device = owner.current().device
    return stream.limits[type] if stream is not None and type in stream.limits else device.core_limit(type)
