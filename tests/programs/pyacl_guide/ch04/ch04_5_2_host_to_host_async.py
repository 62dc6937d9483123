"""Chapter 4.5.2: an asynchronous copy within the host is accepted, and fails when the stream is waited for."""

import numpy as np

import acl

ACL_MEMCPY_HOST_TO_HOST = 0


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    device_id = 0
    check("init", acl.init())
    check("set_device", acl.rt.set_device(device_id))
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    size = 1 * 1024 * 1024
    host_ptr_a, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    host_ptr_b, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    content = np.random.default_rng(45).bytes(size)
    ret = acl.rt.memcpy(host_ptr_a, size, acl.util.bytes_to_ptr(content), size, ACL_MEMCPY_HOST_TO_HOST)
    check("memcpy", ret)

    # The task is queued ...
    ret = acl.rt.memcpy_async(host_ptr_b, size, host_ptr_a, size, ACL_MEMCPY_HOST_TO_HOST, stream)
    check("memcpy_async within the host", ret)
    # ... and its failure shows here.
    ret = acl.rt.synchronize_stream(stream)
    assert ret != 0, "synchronize_stream must report the failed task"
    print("synchronize_stream returned", ret)

    # The source is untouched, and the synchronous copy does the work.
    assert acl.util.ptr_to_bytes(host_ptr_a, size) == content
    check("memcpy", acl.rt.memcpy(host_ptr_b, size, host_ptr_a, size, ACL_MEMCPY_HOST_TO_HOST))
    assert acl.util.ptr_to_bytes(host_ptr_b, size) == content

    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("free_host", acl.rt.free_host(host_ptr_a))
    check("free_host", acl.rt.free_host(host_ptr_b))
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
