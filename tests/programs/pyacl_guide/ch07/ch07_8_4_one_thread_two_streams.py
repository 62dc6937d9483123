"""Chapter 7.8.4: one thread keeps two streams of one context busy."""

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
SIZE = 512 * 1024


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def device_buffer(content):
    ptr, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    ret = acl.rt.memcpy(ptr, SIZE, acl.util.bytes_to_ptr(content), SIZE, ACL_MEMCPY_HOST_TO_DEVICE)
    check("memcpy", ret)
    return ptr


def device_bytes(dev_ptr):
    host_ptr, ret = acl.rt.malloc_host(SIZE)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, SIZE, dev_ptr, SIZE, ACL_MEMCPY_DEVICE_TO_HOST))
    data = acl.util.ptr_to_bytes(host_ptr, SIZE)
    check("free_host", acl.rt.free_host(host_ptr))
    return data


def main():
    check("init", acl.init())
    device_id = 0

    # manual slip: the comment names create_context for choosing among several contexts; set_context does that
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)
    content_1, content_2 = np.random.default_rng(1).bytes(SIZE), np.random.default_rng(2).bytes(SIZE)
    in_1, out_1 = device_buffer(content_1), device_buffer(bytes(SIZE))
    in_2, out_2 = device_buffer(content_2), device_buffer(bytes(SIZE))

    stream1, ret = acl.rt.create_stream()
    check("create_stream", ret)
    # manual: acl.mdl.execute_async(model_id_1, ...) stands here; needs a model, see the inference issue
    ret = acl.rt.memcpy_async(out_1, SIZE, in_1, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream1)
    check("task on stream1", ret)

    stream2, ret = acl.rt.create_stream()
    check("create_stream", ret)
    # manual: acl.mdl.execute_async(model_id_2, ...) stands here; needs a model, see the inference issue
    ret = acl.rt.memcpy_async(out_2, SIZE, in_2, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream2)
    check("task on stream2", ret)
    (id_1, ret_1), (id_2, ret_2) = acl.rt.stream_get_id(stream1), acl.rt.stream_get_id(stream2)
    assert ret_1 == ret_2 == 0 and id_1 != id_2, "two streams must have two ids"

    # Wait for both.
    ret = acl.rt.synchronize_stream(stream1)
    check("synchronize_stream(stream1)", ret)
    ret = acl.rt.synchronize_stream(stream2)
    check("synchronize_stream(stream2)", ret)
    assert device_bytes(out_1) == content_1, "stream1: wrong data"
    assert device_bytes(out_2) == content_2, "stream2: wrong data"

    # Give back.
    for ptr in (in_1, out_1, in_2, out_2):
        check("free", acl.rt.free(ptr))
    ret = acl.rt.destroy_stream(stream2)
    check("destroy_stream(stream2)", ret)
    ret = acl.rt.destroy_stream(stream1)
    check("destroy_stream(stream1)", ret)
    ret = acl.rt.destroy_context(context)
    check("destroy_context", ret)
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
