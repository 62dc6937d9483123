"""Chapter 3.2: set_device counts up, reset_device counts down, and at zero the device is gone for this process."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
INVALID_DEVICE = 107001
SIZE = 1024


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def fill_and_read(value):
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memset", acl.rt.memset(dev_ptr, SIZE, value, SIZE))
    check("memcpy", acl.rt.memcpy(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    data = acl.util.ptr_to_bytes(host_ptr, SIZE)
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    return data


def main():
    device_id = 0
    check("init", acl.init())
    count, ret = acl.rt.get_device_count()
    check("get_device_count", ret)
    check("set_device(count)", acl.rt.set_device(count), INVALID_DEVICE)
    check("set_device(-1)", acl.rt.set_device(-1), INVALID_DEVICE)

    # Two references, one taken back: the device still works.
    check("set_device", acl.rt.set_device(device_id))
    check("set_device again", acl.rt.set_device(device_id))
    assert fill_and_read(7) == b"\x07" * SIZE
    check("reset_device", acl.rt.reset_device(device_id))
    assert fill_and_read(8) == b"\x08" * SIZE

    # The last reference gone: nothing of the device is usable.
    check("reset_device, last reference", acl.rt.reset_device(device_id))
    _, ret = acl.rt.get_device()
    assert ret != 0, "get_device must fail once the device is released"
    _, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    assert ret != 0, "malloc must fail once the device is released"
    assert acl.rt.reset_device(device_id) != 0, "a count below zero must be refused"

    # A new first set_device starts a new life.
    check("set_device", acl.rt.set_device(device_id))
    assert fill_and_read(9) == b"\x09" * SIZE
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
