"""Chapter 7.8.3: one thread, one stream."""

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    host_size = dev_size = 256 * 1024
    dev_ptr, ret = acl.rt.malloc(dev_size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(host_size)
    check("malloc_host", ret)
    content = np.random.default_rng(783).bytes(host_size)
    ret = acl.rt.memcpy(host_ptr, host_size, acl.util.bytes_to_ptr(content), host_size, ACL_MEMCPY_HOST_TO_HOST)
    check("memcpy", ret)

    # Make a stream.
    # manual slip: printed `create_stream\(\)`, with stray backslashes
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # Queue a task on it.
    ret = acl.rt.memcpy_async(dev_ptr, dev_size, host_ptr, host_size, ACL_MEMCPY_HOST_TO_DEVICE, stream)
    check("memcpy_async", ret)
    # Wait until the stream has done all its tasks.
    ret = acl.rt.synchronize_stream(stream)
    check("synchronize_stream", ret)
    status, ret = acl.rt.stream_query(stream)
    check("stream_query", ret)
    assert status == 0, "the stream must be idle"

    # Destroy the stream after use.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)

    # What the stream did outlives it.
    check("memset", acl.rt.memset(host_ptr, host_size, 0, host_size))
    check("memcpy", acl.rt.memcpy(host_ptr, host_size, dev_ptr, dev_size, ACL_MEMCPY_DEVICE_TO_HOST))
    assert acl.util.ptr_to_bytes(host_ptr, host_size) == content, "the copy differs"
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
