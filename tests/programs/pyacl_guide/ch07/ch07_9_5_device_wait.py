"""Chapter 7.9.5: the program waits for everything that runs on a device; a gate keeps one stream busy meanwhile."""

import threading

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_CALLBACK_BLOCK = 1
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
    device_id = 0

    # Choose the device.
    ret = acl.rt.set_device(device_id)
    check("set_device", ret)

    # Make a context.
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)

    # Make a stream; it and the default stream (0) get work, the first only gets on when the gate opens.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    tid, ret = acl.util.start_thread(process_callback, [context, 50])
    check("start_thread", ret)
    check("subscribe_report", acl.rt.subscribe_report(tid, stream))
    ret = acl.rt.launch_callback(lambda _: gate.wait(20), None, ACL_CALLBACK_BLOCK, stream)
    check("launch_callback", ret)
    rows = []
    for value, stm in ((1, stream), (2, 0)):
        dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        host_ptr, ret = acl.rt.malloc_host(SIZE)
        check("malloc_host", ret)
        check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, value, SIZE, stm))
        ret = acl.rt.memcpy_async(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stm)
        check("memcpy_async", ret)
        rows.append((value, dev_ptr, host_ptr))
    threading.Timer(0.05, gate.set).start()

    # Block until the device has finished.
    ret = acl.rt.synchronize_device()
    check("synchronize_device", ret)
    assert gate.is_set(), "synchronize_device did not wait"
    for value, dev_ptr, host_ptr in rows:
        assert acl.util.ptr_to_bytes(host_ptr, SIZE) == bytes([value]) * SIZE, f"task {value} had not finished"
        check("free_host", acl.rt.free_host(host_ptr))
        check("free", acl.rt.free(dev_ptr))
    check("unsubscribe_report", acl.rt.unsubscribe_report(tid, stream))
    stop.set()
    check("stop_thread", acl.util.stop_thread(tid))

    # Give back.
    ret = acl.rt.synchronize_stream(stream)
    check("synchronize_stream", ret)
    # manual slip: the list of releases waits for the stream once more but never destroys it
    check("destroy_stream", acl.rt.destroy_stream(stream))
    ret = acl.rt.destroy_context(context)
    check("destroy_context", ret)
    ret = acl.rt.reset_device(device_id)
    check("reset_device", ret)
    check("finalize", acl.finalize())


if __name__ == "__main__":
    try:
        main()
    finally:
        stop.set()
        gate.set()
