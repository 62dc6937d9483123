"""Chapter 6.6: an operator whose output shape only the run tells, with acl.op.infer_shape before it."""

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_FLOAT, ACL_INT64 = 0, 9
ACL_FORMAT_ND = 2


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def dims_of(desc):
    dims = []
    for j in range(acl.get_tensor_desc_num_dims(desc)):
        dim, ret = acl.get_tensor_desc_dim_v2(desc, j)
        check("get_tensor_desc_dim_v2", ret)
        dims.append(dim)
    return dims


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    op_type, num_outputs, attr = "NonZero", 1, acl.op.create_attr()
    x = np.array([[0, 3, 0], [1, 0, 2]], np.float32)
    data = x.tobytes()
    in_desc_list = [acl.create_tensor_desc(ACL_FLOAT, list(x.shape), ACL_FORMAT_ND)]
    infer_desc_list = [acl.create_tensor_desc(ACL_INT64, [], ACL_FORMAT_ND)]

    # The program runs on the host, so the inputs of infer_shape are host memory.
    host_ptr, ret = acl.rt.malloc_host(len(data))
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_ptr, len(data), acl.util.bytes_to_ptr(data), len(data), 0))
    host_list = [acl.create_data_buffer(host_ptr, len(data))]
    check("infer_shape", acl.op.infer_shape(op_type, in_desc_list, host_list, num_outputs, infer_desc_list, attr))

    tensor_dims = []
    for desc in infer_desc_list:
        dim_size = []
        for j, dim in enumerate(dims_of(desc)):
            # -1 is a dim that is dynamic: its largest value makes the room.
            if dim == -1:
                dim_range, ret = acl.get_tensor_desc_dim_range(desc, j, 2)
                check("get_tensor_desc_dim_range", ret)
                dim = dim_range[1]
            dim_size.append(dim)
        tensor_dims.append(dim_size)
    assert tensor_dims == [[6, 2]], tensor_dims

    out_desc_list = [acl.create_tensor_desc(ACL_INT64, dims, ACL_FORMAT_ND) for dims in tensor_dims]
    out_size = acl.get_tensor_desc_size(out_desc_list[0])
    dev_in, ret = acl.rt.malloc(len(data), ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    dev_out, ret = acl.rt.malloc(out_size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    check("memcpy", acl.rt.memcpy(dev_in, len(data), host_ptr, len(data), ACL_MEMCPY_HOST_TO_DEVICE))
    in_list, out_list = [acl.create_data_buffer(dev_in, len(data))], [acl.create_data_buffer(dev_out, out_size)]
    check("execute_v2", acl.op.execute_v2(op_type, in_desc_list, in_list, out_desc_list, out_list, attr, stream))

    # After the run the description holds the real shape.
    out_tensor_dims = [dims_of(desc) for desc in out_desc_list]
    assert out_tensor_dims == [[3, 2]], out_tensor_dims
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    found = np.frombuffer(acl.util.ptr_to_bytes(dev_out, 3 * 2 * 8), np.int64).reshape(3, 2)
    assert (found == np.argwhere(x)).all(), found

    for buffer in (*host_list, *in_list, *out_list):
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    for desc in (*in_desc_list, *infer_desc_list, *out_desc_list):
        acl.destroy_tensor_desc(desc)
    acl.op.destroy_attr(attr)
    check("free", acl.rt.free(dev_in))
    check("free", acl.rt.free(dev_out))
    check("free_host", acl.rt.free_host(host_ptr))
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
