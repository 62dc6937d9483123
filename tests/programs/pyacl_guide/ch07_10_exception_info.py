"""Chapter 7.10: the exception callback tells which task failed; a copy within the host is the task that fails."""

import threading

import acl

ACL_MEMCPY_HOST_TO_HOST = 0
NOT_KNOWN = 0xFFFFFFFF
SIZE = 4096
infos = []
called = threading.Event()


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    # 1. Resources.
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    context, ret = acl.rt.create_context(0)
    check("create_context", ret)
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    host_ptr_a, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    host_ptr_b, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)

    # 2., 3. manual: loading a model and its datasets stands here; needs a model, see the inference issue

    # 4. The exception callback.
    def exception_callback(info):
        stream_id = acl.rt.get_stream_id_from_exception_info(info)
        thread_id = acl.rt.get_thread_id_from_exception_info(info)
        device_id = acl.rt.get_device_id_from_exception_info(info)
        task_id = acl.rt.get_task_id_from_exception_info(info)
        error_code = acl.rt.get_error_code_from_exception_info(info)
        # manual: acl.mdl.create_and_get_op_desc(...) stands here; needs a model, see the inference issue
        infos.append((info, device_id, stream_id, task_id, thread_id, error_code))
        called.set()

    # 5. Set it.
    ret = acl.rt.set_exception_info_callback(exception_callback)
    check("set_exception_info_callback", ret)

    # 6. manual: acl.mdl.execute(model_id, input, output) stands here; needs a model, see the inference issue
    ret = acl.rt.memcpy_async(host_ptr_b, SIZE, host_ptr_a, SIZE, ACL_MEMCPY_HOST_TO_HOST, stream)
    check("memcpy_async within the host", ret)
    last_task_id, ret = acl.rt.get_thread_last_task_id()
    check("get_thread_last_task_id", ret)
    failure = acl.rt.synchronize_stream(stream)
    assert failure != 0, "synchronize_stream must report the failed task"

    # 7. What the callback learned.
    assert called.wait(20), "the exception callback was never called"
    assert len(infos) == 1, f"one task failed, the callback came {len(infos)} times"
    info, device_id, stream_id, task_id, thread_id, error_code = infos[0]
    print(f"device {device_id}, stream {stream_id}, task {task_id}, thread {thread_id}, error {error_code}")
    assert info != 0 and device_id == 0
    want_id, ret = acl.rt.stream_get_id(stream)
    check("stream_get_id", ret)
    assert stream_id == want_id, f"stream id {stream_id}, expected {want_id}"
    assert task_id == last_task_id, f"task id {task_id}, expected {last_task_id}"
    assert thread_id not in (0, NOT_KNOWN) and error_code not in (0, NOT_KNOWN)
    assert acl.rt.get_task_id_from_exception_info(0) == NOT_KNOWN

    # 8., 9. Give back.
    check("set_exception_info_callback(None)", acl.rt.set_exception_info_callback(None))
    check("free_host", acl.rt.free_host(host_ptr_a))
    check("free_host", acl.rt.free_host(host_ptr_b))
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
