"""Appendix B: fresh memory may hold anything, so it is cleared before use."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
PARAM_INVALID = 107000


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def device_bytes(dev_ptr, size):
    host_ptr, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, size, dev_ptr, size, ACL_MEMCPY_DEVICE_TO_HOST))
    data = acl.util.ptr_to_bytes(host_ptr, size)
    check("free_host", acl.rt.free_host(host_ptr))
    return data


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    dev_buffer_size = 100_000
    dev_buffer_ptr, ret = acl.rt.malloc(dev_buffer_size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)

    # Dirt, then the manual's call.
    check("memset", acl.rt.memset(dev_buffer_ptr, dev_buffer_size, 0xAB, dev_buffer_size))
    assert device_bytes(dev_buffer_ptr, dev_buffer_size) == b"\xab" * dev_buffer_size
    ret = acl.rt.memset(dev_buffer_ptr, dev_buffer_size, 0, dev_buffer_size)
    check("memset", ret)
    assert device_bytes(dev_buffer_ptr, dev_buffer_size) == bytes(dev_buffer_size)

    # Only `count` bytes are touched, and never more than the buffer has.
    check("memset", acl.rt.memset(dev_buffer_ptr, dev_buffer_size, 0xCD, 1000))
    assert device_bytes(dev_buffer_ptr, dev_buffer_size) == b"\xcd" * 1000 + bytes(dev_buffer_size - 1000)
    ret = acl.rt.memset(dev_buffer_ptr, dev_buffer_size, 0, dev_buffer_size + 1)
    check("memset beyond the buffer", ret, PARAM_INVALID)

    # The asynchronous form, on the default stream.
    ret = acl.rt.memset_async(dev_buffer_ptr, dev_buffer_size, 0, dev_buffer_size, 0)
    check("memset_async", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(0))
    assert device_bytes(dev_buffer_ptr, dev_buffer_size) == bytes(dev_buffer_size)

    check("free", acl.rt.free(dev_buffer_ptr))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
