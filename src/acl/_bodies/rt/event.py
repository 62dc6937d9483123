"""Bodies of `acl.rt`: events and notifies."""

from __future__ import annotations

from acl._bodies._common import milliseconds
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.process import process
from softnpu.runtime.sharing import exchange as shared
from softnpu.runtime.sharing import offers
from softnpu.runtime.streams.event import ALL_FLAGS, Event, Mark, Notify
from softnpu.runtime.streams.stream import Stream


def create_event() -> int:
    return process().registry.create_event("plain", 0).handle


def _flag(flag: int) -> int:
    if flag & ~ALL_FLAGS or not flag:
        raise NpuError(
            codes.INVALID_PARAM, f"event flag {flag:#x} is not known", "combine ACL_EVENT_… bits, e.g. 0x8 (TIME_LINE)"
        )
    return flag


def create_event_with_flag(flag: int) -> int:
    return process().registry.create_event("flag", _flag(flag)).handle


def create_event_ex_with_flag(flag: int) -> int:
    return process().registry.create_event("ex", _flag(flag)).handle


def destroy_event(event: Event) -> None:
    owner = process()
    owner.handles.remove("event", event.handle)
    owner.registry.end_event(event)


def _same_context(event: Event, stream: Stream) -> None:
    if event.context is not stream.context:
        raise NpuError(
            codes.RT_STREAM_CONTEXT,
            f"event {event.id} and stream {stream.id} belong to different contexts",
            "create both in the same context",
        )


def record_event(event: Event, stream: Stream) -> None:
    _same_context(event, stream)
    stream.record(event)


def reset_event(event: Event, stream: Stream) -> None:
    if event.kind != "flag":
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"event {event.id} was not made with create_event_with_flag and cannot be reset",
            "record it again instead; that moves the mark",
        )
    _same_context(event, stream)
    mark = event.mark

    def clear() -> None:
        if event.mark is mark:
            event.mark = None

    stream.submit(clear, "EVENT_RESET", inline=True)


def stream_wait_event(stream: Stream, event: Event) -> None:
    _same_context(event, stream)
    stream.wait_event(event, process().wait_timeout)


def _not_ex(event: Event, call: str) -> None:
    if event.kind == "ex":
        raise NpuError(
            codes.RT_FEATURE_NOT_SUPPORT,
            f"{call} does not work with events of create_event_ex_with_flag",
            "use query_event_status",
        )


def query_event(event: Event) -> int:
    _not_ex(event, "query_event")
    return int(not event.complete())


def query_event_status(event: Event) -> int:
    return int(event.complete())


def query_event_wait_status(event: Event) -> int:
    _not_ex(event, "query_event_wait_status")
    return int(event.waits > 0)


def _synchronize(event: Event, timeout: float | None) -> None:
    if not event.wait(timeout):
        raise NpuError(
            codes.RT_EVENT_SYNC_TIMEOUT,
            f"event {event.id} was not reached after {timeout} s",
            "wait longer, or see what its stream waits for",
        )


def synchronize_event(event: Event) -> None:
    _synchronize(event, None)


def synchronize_event_with_timeout(event: Event, timeout_ms: int) -> None:
    _synchronize(event, milliseconds(timeout_ms))


def _reached(event: Event) -> Mark:
    if not event.timed:
        raise NpuError(
            codes.RT_EVENT_TIMESTAMP_INVALID,
            f"event {event.id} was made without the time flag",
            "create it with flag 0x8 (ACL_EVENT_TIME_LINE)",
        )
    if event.mark is None or not event.mark.done:
        state = "was never recorded" if event.mark is None else "was not reached yet"
        raise NpuError(
            codes.RT_EVENT_TIMESTAMP_INVALID,
            f"event {event.id} {state}",
            "record it and synchronise before asking for times",
        )
    return event.mark


def event_elapsed_time(start: Event, end: Event) -> float:
    first, last = _reached(start).time_ns, _reached(end).time_ns
    if last < first:
        raise NpuError(
            codes.RT_EVENT_TIMESTAMP_REVERSAL,
            f"event {end.id} was reached {(first - last) / 1e6:.3f} ms before event {start.id}",
            "pass the earlier event first",
        )
    return (last - first) / 1e6


def event_get_timestamp(event: Event) -> int:
    return _reached(event).time_ns // 1000


def get_event_id(event: Event) -> int:
    return event.id


def get_event_avail_num() -> int:
    device = process().current().device
    return device.soc.max_events - device.events


def set_op_wait_timeout(seconds: int) -> None:
    owner = process()
    owner.current()
    owner.wait_timeout = float(seconds) if seconds else None


def create_notify(flag: int) -> int:
    if flag not in (0, 1):
        raise NpuError(codes.INVALID_PARAM, f"notify flag {flag} is not known", "pass 0, or 1 for device use only")
    return process().registry.create_notify(flag).handle


def destroy_notify(notify: Notify) -> None:
    owner = process()
    owner.handles.remove("notify", notify.handle)
    owner.registry.end_notify(notify)


def record_notify(notify: Notify, stream: Stream) -> None:
    stream.submit(notify.record, "NOTIFY_RECORD", inline=True)


def wait_and_reset_notify(notify: Notify, stream: Stream, timeout: int) -> None:
    stream.wait_notify(notify, float(timeout) if timeout else None)


def get_notify_id(notify: Notify) -> int:
    return notify.id


def notify_batch_reset(notifies: list[int]) -> None:
    handles = process().handles
    for notify in [handles.get("notify", handle) for handle in notifies]:
        notify.reset()


def notify_get_export_key(notify: Notify, len: int, flag: int) -> str:
    return shared.export_notify(process(), notify, offers.key_length(len), flag)


def notify_set_import_pid(notify: Notify, pids: list[int]) -> None:
    shared.allow_notify(process(), notify, pids)


def notify_import_by_key(key: str, flag: int) -> int:
    return shared.import_notify(process(), key, flag).handle
