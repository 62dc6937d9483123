"""Chapter 4.4: take device, context and stream in that order, give them back in the reverse order."""

import acl

ACL_HOST = 1
ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
STALE_HANDLE = 107000
SIZE = 4096


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    device_id = 0
    check("init", acl.init())

    # ===== take =====
    # 1. Choose the device.
    ret = acl.rt.set_device(device_id)
    check("set_device", ret)

    # 2. Make a context.
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)

    # 3. Make a stream.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    # ===== take =====

    current, ret = acl.rt.get_context()
    check("get_context", ret)
    assert current == context != 0 and stream != 0
    run_mode, ret = acl.rt.get_run_mode()
    check("get_run_mode", ret)
    assert run_mode == ACL_HOST, f"run mode {run_mode}"

    # The stream runs tasks in the order they were given: the last fill wins.
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    for value in range(20):
        check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, value, SIZE, stream))
    ret = acl.rt.memcpy_async(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)
    check("memcpy_async", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    assert acl.util.ptr_to_bytes(host_ptr, SIZE) == bytes([19]) * SIZE
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))

    # ===== give back =====
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.destroy_context(context)
    check("destroy_context", ret)
    check("set_context of a destroyed context", acl.rt.set_context(context), STALE_HANDLE)
    ret = acl.rt.reset_device(device_id)
    check("reset_device", ret)
    # ===== give back =====
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
