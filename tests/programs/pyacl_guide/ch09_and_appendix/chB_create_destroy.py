"""Appendix B: what was created is destroyed, its name is set to None, and a dead handle is refused."""

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
INVALID_PARAM = 100000
SIZE = 1024
ROUNDS = 3000


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))

    # More rounds than a device has streams: without destroying, this would run out.
    for _ in range(ROUNDS):
        stream, ret = acl.rt.create_stream()
        check("create_stream", ret)
        event, ret = acl.rt.create_event()
        check("create_event", ret)
        dev_ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        data_buffer = acl.create_data_buffer(dev_ptr, SIZE)
        assert data_buffer != 0, "create_data_buffer failed"
        assert acl.get_data_buffer_addr(data_buffer) == dev_ptr and acl.get_data_buffer_size(data_buffer) == SIZE

        ret = acl.destroy_data_buffer(data_buffer)
        check("destroy_data_buffer", ret)
        data_buffer = None
        ret = acl.rt.free(dev_ptr)
        check("free", ret)
        dev_ptr = None
        ret = acl.rt.destroy_event(event)
        check("destroy_event", ret)
        dead_event, event = event, None
        ret = acl.rt.destroy_stream(stream)
        check("destroy_stream", ret)
        dead_stream, stream = stream, None

    # None is not a handle, 0 is no event, and a dead handle answers with a code.
    try:
        acl.rt.synchronize_stream(stream)
    except TypeError:
        pass
    else:
        raise AssertionError("None must not pass as a stream")
    check("destroy_event(0)", acl.rt.destroy_event(0), INVALID_PARAM)
    check("destroy_data_buffer(0)", acl.destroy_data_buffer(0), INVALID_PARAM)
    assert acl.rt.synchronize_stream(dead_stream) != 0, "a destroyed stream must be refused"
    assert acl.rt.record_event(dead_event, 0) != 0, "a destroyed event must be refused"

    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
