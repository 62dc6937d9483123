"""Chapter 7.9.2: the program waits for an event, which happens when the stream has come to it."""

import threading
import time

import acl

ACL_CALLBACK_BLOCK = 1
EVENT_NOT_READY, EVENT_COMPLETE = 0, 1  # as query_event_status counts
EVENT_WAIT_EXPIRED = 507047
entered = threading.Event()
gate = threading.Event()
stop = threading.Event()


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def process_callback(args_list):
    context, timeout = args_list
    check("set_context", acl.rt.set_context(context))
    while not stop.is_set():
        acl.rt.process_report(timeout)


def hold_until_open(_):
    entered.set()
    gate.wait(20)


def status_of(event):
    status, ret = acl.rt.query_event_status(event)
    check("query_event_status", ret)
    return status


def main():
    check("init", acl.init())
    context, ret = acl.rt.create_context(0)
    check("create_context", ret)
    # Make an event; a second one marks the start for the clock.
    event, ret = acl.rt.create_event()
    check("create_event", ret)
    start_event, ret = acl.rt.create_event()
    check("create_event", ret)

    # Make a stream.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    tid, ret = acl.util.start_thread(process_callback, [context, 50])
    check("start_thread", ret)
    check("subscribe_report", acl.rt.subscribe_report(tid, stream))

    # Work that lasts until the gate opens.
    begin = time.monotonic()
    check("record_event", acl.rt.record_event(start_event, stream))
    ret = acl.rt.launch_callback(hold_until_open, None, ACL_CALLBACK_BLOCK, stream)
    check("launch_callback", ret)
    # The event goes to the end of the stream.
    ret = acl.rt.record_event(event, stream)
    check("record_event", ret)
    assert entered.wait(20), "the callback never ran"
    assert status_of(event) == EVENT_NOT_READY, "the event cannot have happened yet"
    check("wait of 30 ms", acl.rt.synchronize_event_with_timeout(event, 30), EVENT_WAIT_EXPIRED)
    gate.set()

    # Block until the event has happened.
    ret = acl.rt.synchronize_event(event)
    check("synchronize_event", ret)
    passed_ms = (time.monotonic() - begin) * 1000
    assert status_of(event) == EVENT_COMPLETE
    elapsed_ms, ret = acl.rt.event_elapsed_time(start_event, event)
    check("event_elapsed_time", ret)
    assert 25 <= elapsed_ms <= passed_ms + 5, f"{elapsed_ms} ms between the events, {passed_ms} ms on the clock"

    check("unsubscribe_report", acl.rt.unsubscribe_report(tid, stream))
    stop.set()
    check("stop_thread", acl.util.stop_thread(tid))
    # Give back.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.destroy_event(event)
    check("destroy_event", ret)
    check("destroy_event", acl.rt.destroy_event(start_event))
    check("destroy_context", acl.rt.destroy_context(context))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    try:
        main()
    finally:
        stop.set()
        gate.set()
