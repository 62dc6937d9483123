"""Chapter 6.7: a dynamic-shape operator with a registered selector.

The kernel's binary is a stand-in: nothing here can run NPU code, the operator `add` runs by its known meaning."""

import numpy as np

import acl

ACL_ENGINE_AICORE = 1
ACL_FLOAT16 = 1
ACL_FORMAT_ND = 2
ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
KERNEL = "cce_add_11_33_float16_11_33_float16_kernel0"
calls = []


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# The selector: chooses the tiling for the shapes at hand and names the kernel.
def op_select(in_num, in_desc, out_num, out_desc, op_attr, op_kernel_desc):
    assert (in_num, out_num) == (2, 1)
    count = acl.get_tensor_desc_element_count(in_desc[0])
    tiling = np.array([count], np.int32).tobytes()
    calls.append(count)
    return acl.op.set_kernel_args(op_kernel_desc, KERNEL, 1, acl.util.bytes_to_ptr(tiling), len(tiling))


def main():
    # 1. Initialise.
    device_id = 0
    check("init", acl.init())
    check("set_device", acl.rt.set_device(device_id))
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    check("register_compile_func", acl.op.register_compile_func("add", op_select))
    binary = bytes(256)
    np_op_0_ptr, op_data_size_0 = acl.util.bytes_to_ptr(binary), len(binary)
    ret = acl.op.create_kernel("add", KERNEL, KERNEL, np_op_0_ptr, op_data_size_0, ACL_ENGINE_AICORE, 0)
    check("create_kernel", ret)

    # 2. Tensors.
    a = np.random.rand(2, 1).astype(np.float16)
    b = np.random.rand(2, 1).astype(np.float16)
    bytes_a, bytes_b = a.tobytes(), b.tobytes()
    a_ptr, b_ptr = acl.util.bytes_to_ptr(bytes_a), acl.util.bytes_to_ptr(bytes_b)
    input_desc_list = [
        acl.create_tensor_desc(ACL_FLOAT16, [2, 1], ACL_FORMAT_ND),
        acl.create_tensor_desc(ACL_FLOAT16, [2, 1], ACL_FORMAT_ND),
    ]
    output_desc_list = [acl.create_tensor_desc(ACL_FLOAT16, [2, 1], ACL_FORMAT_ND)]
    size_a = acl.get_tensor_desc_size(input_desc_list[0])
    size_b = acl.get_tensor_desc_size(input_desc_list[1])
    size_c = acl.get_tensor_desc_size(output_desc_list[0])
    dev_a, ret = acl.rt.malloc(size_a, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    dev_b, ret = acl.rt.malloc(size_b, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    dev_c, ret = acl.rt.malloc(size_c, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)

    # 3. Copy in.
    check("memcpy", acl.rt.memcpy(dev_a, size_a, a_ptr, size_a, ACL_MEMCPY_HOST_TO_DEVICE))
    check("memcpy", acl.rt.memcpy(dev_b, size_b, b_ptr, size_b, ACL_MEMCPY_HOST_TO_DEVICE))

    # 4. Compile, which calls the selector.
    op_attr = acl.op.create_attr()
    check("update_params", acl.op.update_params("add", input_desc_list, output_desc_list, op_attr))
    assert calls == [2], calls

    # 5. Run.
    in_data_list = [acl.create_data_buffer(dev_a, size_a), acl.create_data_buffer(dev_b, size_b)]
    out_data_list = [acl.create_data_buffer(dev_c, size_c)]
    ret = acl.op.execute_v2("add", input_desc_list, in_data_list, output_desc_list, out_data_list, op_attr, stream)
    check("execute_v2", ret)
    # manual slip: the listing copies the result without waiting for the stream
    check("synchronize_stream", acl.rt.synchronize_stream(stream))

    # 6. Copy out.
    host_ptr, ret = acl.rt.malloc_host(size_c)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, size_c, dev_c, size_c, ACL_MEMCPY_DEVICE_TO_HOST))
    bytes_out = acl.util.ptr_to_bytes(host_ptr, size_c)
    out_np = np.frombuffer(bytes_out, dtype=np.byte).reshape((size_c,))
    assert (out_np.view(np.float16).reshape(2, 1) == a + b).all()

    # 7. Give back.
    for desc in (*input_desc_list, *output_desc_list):
        acl.destroy_tensor_desc(desc)
    for buffer in (*in_data_list, *out_data_list):
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    acl.op.destroy_attr(op_attr)
    check("unregister_compile_func", acl.op.unregister_compile_func("add"))
    check("free_host", acl.rt.free_host(host_ptr))
    for ptr in (dev_a, dev_b, dev_c):
        check("free", acl.rt.free(ptr))
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
