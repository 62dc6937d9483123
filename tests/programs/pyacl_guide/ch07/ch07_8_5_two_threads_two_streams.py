"""Chapter 7.8.5: two threads, each with a context and a stream of its own."""

import threading

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
SIZE = 128 * 1024
done = {}


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# manual slip: run_thread is given a stream (stream1, stream2) that nobody made and replaces it at once; a number here
def run_thread(number):
    device_id = 0

    # The context made here is the current one of this thread.
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # Tasks: to the device and back, many times.
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(2 * SIZE)
    check("malloc_host", ret)
    content = np.random.default_rng(number).bytes(SIZE)
    back_ptr = host_ptr + SIZE
    ret = acl.rt.memcpy(host_ptr, SIZE, acl.util.bytes_to_ptr(content), SIZE, ACL_MEMCPY_HOST_TO_HOST)
    check("memcpy", ret)
    for _ in range(20):
        check("memset", acl.rt.memset(back_ptr, SIZE, 0, SIZE))
        ret = acl.rt.memcpy_async(dev_ptr, SIZE, host_ptr, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)
        check("memcpy_async to the device", ret)
        ret = acl.rt.memcpy_async(back_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)
        check("memcpy_async to the host", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(stream))
        assert acl.util.ptr_to_bytes(back_ptr, SIZE) == content, "data of another thread"
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))

    # Give back.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.destroy_context(context)
    check("destroy_context", ret)
    done[number] = threading.get_ident()


def main():
    check("init", acl.init())
    thread_id1, ret = acl.util.start_thread(run_thread, 1)
    check("start_thread", ret)
    thread_id2, ret = acl.util.start_thread(run_thread, 2)
    check("start_thread", ret)
    # Join; a thread that raised makes this raise.
    ret = acl.util.stop_thread(thread_id1)
    check("stop_thread", ret)
    ret = acl.util.stop_thread(thread_id2)
    check("stop_thread", ret)
    assert done == {1: thread_id1, 2: thread_id2}, f"threads that finished: {done}"
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
