"""Chapter 7.2: work on two devices, switched by context, waited for device by device."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_DEVICE_TO_HOST = 2
SIZE = 64 * 1024


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def current_device():
    device_id, ret = acl.rt.get_device()
    check("get_device", ret)
    return device_id


def main():
    check("init", acl.init())
    count, ret = acl.rt.get_device_count()
    check("get_device_count", ret)
    assert count >= 2, f"this program needs two devices, found {count}"

    # 1. Resources on each device.
    rows = []
    for device_id in range(count):
        ret = acl.rt.set_device(device_id)
        check("set_device", ret)
        context, ret = acl.rt.create_context(device_id)
        check("create_context", ret)
        stream, ret = acl.rt.create_stream()
        check("create_stream", ret)
        dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        host_ptr, ret = acl.rt.malloc_host(SIZE)
        check("malloc_host", ret)
        rows.append((device_id, context, stream, dev_ptr, host_ptr))

    # 2. Tasks for each device, none waited for yet; switching the context switches the device.
    # manual: model or operator execution stands here; needs a model, see the inference issue
    for device_id, context, stream, dev_ptr, host_ptr in rows:
        ret = acl.rt.set_context(context)
        check("set_context", ret)
        assert current_device() == device_id
        check("memset_async", acl.rt.memset_async(dev_ptr, SIZE, 10 + device_id, SIZE, stream))
        ret = acl.rt.memcpy_async(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)
        check("memcpy_async", ret)

    # 3. Wait: the call means the device of the current context.
    for device_id, context, stream, _, host_ptr in rows:
        check("set_context", acl.rt.set_context(context))
        ret = acl.rt.synchronize_device()
        check("synchronize_device", ret)
        status, ret = acl.rt.stream_query(stream)
        check("stream_query", ret)
        assert status == 0, f"stream of device {device_id} still runs"
        data = acl.util.ptr_to_bytes(host_ptr, SIZE)
        assert data == bytes([10 + device_id]) * SIZE, f"device {device_id}: wrong data"

    # 4. Give back: stream, context, device.
    for device_id, context, stream, dev_ptr, host_ptr in rows:
        check("set_context", acl.rt.set_context(context))
        check("free_host", acl.rt.free_host(host_ptr))
        check("free", acl.rt.free(dev_ptr))
        check("destroy_stream", acl.rt.destroy_stream(stream))
        check("destroy_context", acl.rt.destroy_context(context))
        check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
