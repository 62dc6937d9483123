"""Chapter 7.9.4: a second stream waits for an event on the first; a gate in the first makes the waiting visible."""

import threading

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_CALLBACK_BLOCK = 1
STREAM_WAIT_EXPIRED = 507046
SIZE = 64 * 1024
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


def main():
    check("init", acl.init())
    context, ret = acl.rt.create_context(0)
    check("create_context", ret)
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memset", acl.rt.memset(dev_ptr, SIZE, 1, SIZE))
    check("memset", acl.rt.memset(host_ptr, SIZE, 0, SIZE))

    # Make an event.
    event, ret = acl.rt.create_event()
    check("create_event", ret)

    # Make two streams.
    s1, ret = acl.rt.create_stream()
    check("create_stream", ret)
    s2, ret = acl.rt.create_stream()
    check("create_stream", ret)
    tid, ret = acl.util.start_thread(process_callback, [context, 50])
    check("start_thread", ret)
    check("subscribe_report", acl.rt.subscribe_report(tid, s1))

    # s1 writes the buffer, but not before the gate opens.
    ret = acl.rt.launch_callback(lambda _: gate.wait(20), None, ACL_CALLBACK_BLOCK, s1)
    check("launch_callback", ret)
    check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, 2, SIZE, s1))
    # The event goes to the end of s1.
    ret = acl.rt.record_event(event, s1)
    check("record_event", ret)

    # s2 stands still until the event has happened; then it reads the buffer.
    ret = acl.rt.stream_wait_event(s2, event)
    check("stream_wait_event", ret)
    ret = acl.rt.memcpy_async(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, s2)
    check("memcpy_async", ret)
    check("wait of 30 ms", acl.rt.synchronize_stream_with_timeout(s2, 30), STREAM_WAIT_EXPIRED)
    assert acl.util.ptr_to_bytes(host_ptr, SIZE) == bytes(SIZE), "s2 ran ahead of s1"
    gate.set()
    check("synchronize_stream(s2)", acl.rt.synchronize_stream(s2))
    assert acl.util.ptr_to_bytes(host_ptr, SIZE) == b"\x02" * SIZE, "s2 did not see what s1 wrote"

    check("unsubscribe_report", acl.rt.unsubscribe_report(tid, s1))
    stop.set()
    check("stop_thread", acl.util.stop_thread(tid))
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    # Give back.
    ret = acl.rt.destroy_stream(s2)
    check("destroy_stream(s2)", ret)
    ret = acl.rt.destroy_stream(s1)
    check("destroy_stream(s1)", ret)
    ret = acl.rt.destroy_event(event)
    check("destroy_event", ret)
    check("destroy_context", acl.rt.destroy_context(context))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    try:
        main()
    finally:
        stop.set()
        gate.set()
