"""Chapter 6.4: a matrix product by acl.blas.gemm_ex, without and with a handle."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_TRANS_N = 0
ACL_COMPUTE_HIGH_PRECISION = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
M, N, K = 16, 16, 32


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# 6.2 prepares the operator: a description in JSON, compiled by atc.
def compile_operator(folder):
    shapes = [[M, K], [K, N], [M, N], [], []]
    tensors = [{"format": "ND", "shape": shape, "type": "float16"} for shape in shapes]
    attrs = [{"name": name, "type": "bool", "value": False} for name in ("transpose_a", "transpose_b")]
    with open(os.path.join(folder, "gemm.json"), "w") as file:
        json.dump([{"op": "GEMM", "input_desc": tensors, "output_desc": [tensors[2]], "attr": attrs}], file)
    command = [
        sys.executable,
        "-m",
        "softnpu.cli.atc",
        "--singleop=gemm.json",
        "--soc_version=Ascend310P3",
        "--output=op_models",
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def to_device(array):
    data = array.tobytes()
    ptr, ret = acl.rt.malloc(len(data), ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    check("memcpy", acl.rt.memcpy(ptr, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))
    return ptr


def to_host(ptr, size):
    host, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host, size, ptr, size, ACL_MEMCPY_DEVICE_TO_HOST))
    found = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float16).reshape(M, N)
    check("free_host", acl.rt.free_host(host))
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        compile_operator(folder)
        # 1. Initialise.
        check("init", acl.init())
        # 2. Say where the single-operator models are.
        check("set_model_dir", acl.op.set_model_dir(os.path.join(folder, "op_models")))
    # 3. Choose the device.
    device_id = 0
    check("set_device", acl.rt.set_device(device_id))

    # 4. and 5. Allocate and copy in.
    # manual slip: the sizes of all three matrices are printed as m * k, with an `acl_dtype` that is never made
    input_type, output_type = 1, 1
    rng = np.random.default_rng(64)
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N), (M, N)))
    size_c = M * N * acl.data_type_size(output_type)
    dev_matrix_a, dev_matrix_b, dev_matrix_c = to_device(a), to_device(b), to_device(c)
    # manual slip: dev_alpha and dev_beta are used but never made
    dev_alpha, dev_beta = to_device(np.array([2], np.float16)), to_device(np.array([1], np.float16))

    # 6. Run.
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    ret = acl.blas.gemm_ex(
        ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, M, N, K, dev_alpha, dev_matrix_a, K, input_type, dev_matrix_b, N,
        input_type, dev_beta, dev_matrix_c, N, output_type, ACL_COMPUTE_HIGH_PRECISION, stream,
    )  # fmt: skip
    check("gemm_ex", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))

    # 7. Copy out.
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + c
    np.testing.assert_allclose(to_host(dev_matrix_c, size_c), expected, rtol=1e-2, atol=2e-2)

    # The same with a handle: C is now what the first run left.
    handle, ret = acl.blas.create_handle_for_gemm_ex(
        ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, M, N, K, input_type, input_type, output_type, ACL_COMPUTE_HIGH_PRECISION
    )
    check("create_handle_for_gemm_ex", ret)
    sizes = [(dev_matrix_a, a.nbytes), (dev_matrix_b, b.nbytes), (dev_matrix_c, size_c), (dev_alpha, 2), (dev_beta, 2)]
    buffers = [acl.create_data_buffer(ptr, size) for ptr, size in sizes]
    check("execute_with_handle", acl.op.execute_with_handle(handle, buffers, [buffers[2]], stream))
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    expected += 2 * (a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(to_host(dev_matrix_c, size_c), expected, rtol=1e-2, atol=4e-2)
    acl.op.destroy_handle(handle)

    # 8. Give back.
    for buffer in buffers:
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    for ptr, _ in sizes:
        check("free", acl.rt.free(ptr))
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
