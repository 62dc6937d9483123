"""Chapter 4.5.5: an asynchronous copy from the device to the host."""

import os
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# The memory to fill is on the device, so reading ends in a copy to it.
def read_file(file_name, ptr, size):
    with open(file_name, "rb") as file:
        data = file.read(size)
    ret = acl.rt.memcpy(ptr, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
    check("read_file", ret)


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
    # manual slip: calls and constants of this listing are printed with stray `**` around them
    dev_ptr_a, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    # An asynchronous copy wants 64-byte aligned addresses: 64 bytes more, aligned by hand.
    host_ptr_b, ret = acl.rt.malloc_host(size + 64)
    check("malloc_host", ret)
    host_align = host_ptr_b + 64 - host_ptr_b % 64
    assert host_align % 64 == 0
    assert dev_ptr_a % 64 == 0, "device memory is 64-byte aligned"

    # 2. Read the data in.
    read_file(fileName, dev_ptr_a, size)
    os.unlink(fileName)

    # 3. Copy, asynchronously.
    # manual slip: printed `stream = acl.rt.create_stream()`; the call returns a pair
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    ret = acl.rt.memcpy_async(host_align, size, dev_ptr_a, size, ACL_MEMCPY_DEVICE_TO_HOST, stream)
    check("memcpy_async", ret)
    ret = acl.rt.synchronize_stream(stream)
    check("synchronize_stream", ret)
    assert acl.util.ptr_to_bytes(host_align, size) == content, "the copy differs from the file"

    # 4. Give back.
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.free_host(host_ptr_b)
    check("free_host", ret)
    ret = acl.rt.free(dev_ptr_a)
    check("free", ret)
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
