"""Chapter 3.2: work on the default stream of the default context, both made by set_device."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
NO_CONTEXT = 107002
SIZE = 4096
HALF = SIZE // 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    device_id = 0
    ret = acl.init()
    check("init", ret)
    ret = acl.rt.set_device(device_id)
    check("set_device", ret)

    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)

    # manual: acl.op.execute_v2(op1, ..., 0) stands here; needs an operator, see the operator issue
    ret = acl.rt.memset_async(dev_ptr, SIZE, 1, SIZE, 0)
    check("op1 on the default stream", ret)
    # manual: acl.op.execute_v2(op2, ..., 0) stands here; needs an operator, see the operator issue
    ret = acl.rt.memset_async(dev_ptr + HALF, HALF, 2, HALF, 0)
    check("op2 on the default stream", ret)
    ret = acl.rt.synchronize_stream(0)
    check("synchronize_stream(0)", ret)

    # Both tasks have run, the second after the first.
    check("memcpy", acl.rt.memcpy(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    assert acl.util.ptr_to_bytes(host_ptr, SIZE) == b"\x01" * HALF + b"\x02" * HALF

    # The default stream is not the program's to destroy, and it works on after the attempt.
    assert acl.rt.destroy_stream(0) != 0, "destroy_stream(0) must be refused"
    check("synchronize_stream(0)", acl.rt.synchronize_stream(0))

    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    ret = acl.rt.reset_device(device_id)
    check("reset_device", ret)

    # Default context and stream ended with the device.
    _, ret = acl.rt.get_context()
    check("get_context after reset_device", ret, NO_CONTEXT)
    _, ret = acl.rt.create_stream()
    check("create_stream after reset_device", ret, NO_CONTEXT)
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
