"""Chapter 4.5.4: a synchronous copy within one device."""

import os
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# The memory to fill is on the device, so reading ends in a copy to it.
def read_file(file_name, ptr, size):
    with open(file_name, "rb") as file:
        data = file.read(size)
    ret = acl.rt.memcpy(ptr, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
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
    dev_ptr_a, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    dev_ptr_b, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)

    # 2. Read the data in.
    read_file(fileName, dev_ptr_a, size)
    os.unlink(fileName)

    # 3. Copy, synchronously.
    ret = acl.rt.memcpy(dev_ptr_b, size, dev_ptr_a, size, ACL_MEMCPY_DEVICE_TO_DEVICE)
    check("memcpy", ret)
    assert device_bytes(dev_ptr_b, size) == content, "the copy differs from the file"

    # 4. Give back.
    ret = acl.rt.free(dev_ptr_a)
    check("free", ret)
    ret = acl.rt.free(dev_ptr_b)
    check("free", ret)
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
