"""Chapter 7.9.3: the program waits for all tasks of one stream, each of which needs the one before."""

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
STEPS = 16


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    host_size = dev_size = 128 * 1024
    chain = []
    for _ in range(STEPS):
        dev_ptr, ret = acl.rt.malloc(dev_size, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        check("memset", acl.rt.memset(dev_ptr, dev_size, 0, dev_size))
        chain.append(dev_ptr)
    dev_ptr = chain[0]
    host_ptr, ret = acl.rt.malloc_host(host_size)
    check("malloc_host", ret)
    back_ptr, ret = acl.rt.malloc_host(host_size)
    check("malloc_host", ret)
    content = np.random.default_rng(793).bytes(host_size)
    ret = acl.rt.memcpy(host_ptr, host_size, acl.util.bytes_to_ptr(content), host_size, ACL_MEMCPY_HOST_TO_HOST)
    check("memcpy", ret)

    # Make a stream.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # Queue a task on it, then a chain that carries the data from buffer to buffer and back to the host.
    ret = acl.rt.memcpy_async(dev_ptr, dev_size, host_ptr, host_size, ACL_MEMCPY_HOST_TO_DEVICE, stream)
    check("memcpy_async", ret)
    for step in range(1, STEPS):
        ret = acl.rt.memcpy_async(chain[step], dev_size, chain[step - 1], dev_size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)
        check("memcpy_async", ret)
    ret = acl.rt.memcpy_async(back_ptr, host_size, chain[-1], dev_size, ACL_MEMCPY_DEVICE_TO_HOST, stream)
    check("memcpy_async", ret)
    # Wait until the stream has done all its tasks.
    ret = acl.rt.synchronize_stream(stream)
    check("synchronize_stream", ret)
    assert acl.util.ptr_to_bytes(back_ptr, host_size) == content, "the tasks did not run in order"

    # Destroy the stream after use.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    for ptr in chain:
        check("free", acl.rt.free(ptr))
    check("free_host", acl.rt.free_host(host_ptr))
    check("free_host", acl.rt.free_host(back_ptr))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
