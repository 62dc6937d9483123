"""Chapter 3.2: one thread moves between two devices by switching its context."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
STREAM_OF_ANOTHER_CONTEXT = 107003
SIZE = 4096
HALF = SIZE // 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def current_device():
    device_id, ret = acl.rt.get_device()
    check("get_device", ret)
    return device_id


def device_buffer():
    ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    return ptr


def read_back(dev_ptr):
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    data = acl.util.ptr_to_bytes(host_ptr, SIZE)
    check("free_host", acl.rt.free_host(host_ptr))
    return data


def main():
    check("init", acl.init())
    count, ret = acl.rt.get_device_count()
    check("get_device_count", ret)
    assert count >= 2, f"this program needs two devices, found {count}"

    ctx1, ret = acl.rt.create_context(0)
    check("create_context(0)", ret)
    assert current_device() == 0
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    dev_ptr1 = device_buffer()
    # manual: acl.op.execute_v2(op_type, ...) stands here; needs an operator, see the operator issue
    ret = acl.rt.memset_async(dev_ptr1, SIZE, 1, HALF, stream)
    check("first task on device 0", ret)

    # A new context is current at once, so what follows runs on device 1.
    ctx2, ret = acl.rt.create_context(1)
    check("create_context(1)", ret)
    assert current_device() == 1
    stream2, ret = acl.rt.create_stream()
    check("create_stream", ret)
    dev_ptr2 = device_buffer()
    # manual: acl.op.execute_v2(op_type2, ...) stands here; needs an operator, see the operator issue
    ret = acl.rt.memset_async(dev_ptr2, SIZE, 2, SIZE, stream2)
    check("task on device 1", ret)
    check("synchronize_stream(stream2)", acl.rt.synchronize_stream(stream2))
    assert read_back(dev_ptr2) == b"\x02" * SIZE

    # manual slip: the printed line ends in a semicolon
    ret = acl.rt.set_context(ctx1)
    check("set_context(ctx1)", ret)
    assert current_device() == 0
    # manual slip: the third call is given `s1`, which is never made; the stream of ctx1 is called `stream`
    # manual: acl.op.execute_v2(op3, ...) stands here; needs an operator, see the operator issue
    ret = acl.rt.memset_async(dev_ptr1 + HALF, HALF, 3, HALF, stream)
    check("second task on device 0", ret)
    check("synchronize_stream(stream)", acl.rt.synchronize_stream(stream))
    assert read_back(dev_ptr1) == b"\x01" * HALF + b"\x03" * HALF

    # A stream belongs to the context it was made in.
    ret = acl.rt.memset_async(dev_ptr1, SIZE, 9, SIZE, stream2)
    check("stream of ctx2 used in ctx1", ret, STREAM_OF_ANOTHER_CONTEXT)

    for ctx, stm, ptr in ((ctx1, stream, dev_ptr1), (ctx2, stream2, dev_ptr2)):
        check("set_context", acl.rt.set_context(ctx))
        check("free", acl.rt.free(ptr))
        check("destroy_stream", acl.rt.destroy_stream(stm))
        check("destroy_context", acl.rt.destroy_context(ctx))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
