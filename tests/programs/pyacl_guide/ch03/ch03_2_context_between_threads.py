"""Chapter 3.2: contexts are shared by the threads of a process, but each thread chooses its own current one."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
NO_CONTEXT = 107002
SIZE = 4096
results = {}


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def worker(args_list):
    context, device_id, value = args_list
    # A new thread has no context until it chooses one.
    _, ret = acl.rt.get_context()
    check("get_context in a new thread", ret, NO_CONTEXT)
    _, ret = acl.rt.create_stream()
    check("create_stream in a new thread", ret, NO_CONTEXT)

    ret = acl.rt.set_context(context)
    check("set_context", ret)
    current, ret = acl.rt.get_device()
    check("get_device", ret)
    assert current == device_id, f"thread on device {current}, expected {device_id}"

    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, value, SIZE, stream))
    ret = acl.rt.memcpy_async(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)
    check("memcpy_async", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    results[value] = acl.util.ptr_to_bytes(host_ptr, SIZE)

    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    check("destroy_stream", acl.rt.destroy_stream(stream))


def main():
    check("init", acl.init())
    ctx_a, ret = acl.rt.create_context(0)
    check("create_context(0)", ret)
    ctx_b, ret = acl.rt.create_context(1)
    check("create_context(1)", ret)

    # The context made last is the current one.
    current, ret = acl.rt.get_context()
    check("get_context", ret)
    assert current == ctx_b

    # Two threads share ctx_a, a third uses ctx_b.
    jobs = ([ctx_a, 0, 11], [ctx_a, 0, 12], [ctx_b, 1, 13])
    threads = []
    for job in jobs:
        tid, ret = acl.util.start_thread(worker, job)
        check("start_thread", ret)
        threads.append(tid)
    for tid in threads:
        check("stop_thread", acl.util.stop_thread(tid))
    assert results == {value: bytes([value]) * SIZE for value in (11, 12, 13)}, "a thread lost its data"

    # What the threads chose does not change this thread.
    current, ret = acl.rt.get_context()
    check("get_context", ret)
    assert current == ctx_b
    check("destroy_context", acl.rt.destroy_context(ctx_a))
    check("destroy_context", acl.rt.destroy_context(ctx_b))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
