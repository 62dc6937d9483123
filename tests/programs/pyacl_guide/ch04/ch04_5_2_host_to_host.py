"""Chapter 4.5.2: a synchronous copy within the host."""

import os
import tempfile

import numpy as np

import acl

ACL_MEMCPY_HOST_TO_HOST = 0


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def read_file(file_name, ptr, size):
    with open(file_name, "rb") as file:
        data = file.read(size)
    ret = acl.rt.memcpy(ptr, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_HOST)
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
    host_ptr_a, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    host_ptr_b, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)

    # 2. Read the data in.
    read_file(fileName, host_ptr_a, size)
    os.unlink(fileName)

    # 3. Copy, synchronously.
    ret = acl.rt.memcpy(host_ptr_b, size, host_ptr_a, size, ACL_MEMCPY_HOST_TO_HOST)
    check("memcpy", ret)
    assert acl.util.ptr_to_bytes(host_ptr_b, size) == content, "the copy differs from the file"

    # 4. Give back.
    ret = acl.rt.free_host(host_ptr_a)
    check("free_host", ret)
    ret = acl.rt.free_host(host_ptr_b)
    check("free_host", ret)
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
