"""Chapter 4.4: create_context alone also chooses the device; nothing has to be reset afterwards."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
SIZE = 4096


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    check("init", acl.init())
    count, ret = acl.rt.get_device_count()
    check("get_device_count", ret)
    device_id = count - 1

    # 1. Make a context; the device comes with it.
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)
    current, ret = acl.rt.get_device()
    check("get_device", ret)
    assert current == device_id, f"on device {current}, expected {device_id}"

    # 2. Make a stream and use it.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, 5, SIZE, stream))
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    check("memcpy", acl.rt.memcpy(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    assert acl.util.ptr_to_bytes(host_ptr, SIZE) == b"\x05" * SIZE

    # 3. Give back: stream, then context.
    check("free_host", acl.rt.free_host(host_ptr))
    check("free", acl.rt.free(dev_ptr))
    ret = acl.rt.destroy_stream(stream)
    check("destroy_stream", ret)
    ret = acl.rt.destroy_context(context)
    check("destroy_context", ret)
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
