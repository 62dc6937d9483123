"""Chapter 4.5.3: an asynchronous copy from the host to the device."""

import os
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def read_file(file_name, ptr, size):
    with open(file_name, "rb") as file:
        data = file.read(size)
    ret = acl.rt.memcpy(ptr, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_HOST)
    check("read_file", ret)


def device_bytes(dev_ptr, size):
    host_ptr, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, size, dev_ptr, size, ACL_MEMCPY_DEVICE_TO_HOST))
    data = acl.util.ptr_to_bytes(host_ptr, size)
    check("free_host", acl.rt.free_host(host_ptr))
    return data


def main():
    device_id = 0
    check("init", acl.init())
    check("set_device", acl.rt.set_device(device_id))
    size = 1 * 1024 * 1024
    content = np.random.default_rng(45).bytes(size)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(content)
    fileName = file.name

    # 1. Allocate.
    # An asynchronous copy wants 64-byte aligned addresses: 64 bytes more, aligned by hand.
    host_ptr_a, ret = acl.rt.malloc_host(size + 64)
    check("malloc_host", ret)
    host_align = host_ptr_a + 64 - host_ptr_a % 64
    assert host_align % 64 == 0
    dev_ptr_b, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    assert dev_ptr_b % 64 == 0, "device memory is 64-byte aligned"

    # 2. Read the data in.
    read_file(fileName, host_align, size)
    os.unlink(fileName)

    # 3. Copy, asynchronously.
    # manual slip: printed `stream = acl.rt.create_stream()`; the call returns a pair
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    ret = acl.rt.memcpy_async(dev_ptr_b, size, host_align, size, ACL_MEMCPY_HOST_TO_DEVICE, stream)
    check("memcpy_async", ret)
    ret = acl.rt.synchronize_stream(stream)
    check("synchronize_stream", ret)
    assert device_bytes(dev_ptr_b, size) == content, "the copy differs from the file"

    # 4. Give back.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.free_host(host_ptr_a)
    check("free_host", ret)
    ret = acl.rt.free(dev_ptr_b)
    check("free", ret)
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
