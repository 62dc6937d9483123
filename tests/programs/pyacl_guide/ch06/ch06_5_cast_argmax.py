"""Chapter 6.5 (its code stands in 4.6.2): the best class of a result, by the operators Cast and ArgMaxD."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_FLOAT, ACL_FLOAT16, ACL_INT32 = 0, 1, 3
ACL_FORMAT_ND = 2
CLASSES = 1000


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def tensor(shape, kind):
    return {"format": "ND", "shape": shape, "type": kind}


def compile_operators(folder):
    operators = [
        {
            "op": "Cast",
            "input_desc": [tensor([1, CLASSES], "float32")],
            "output_desc": [tensor([1, CLASSES], "float16")],
            "attr": [{"name": "dst_type", "type": "int", "value": ACL_FLOAT16}],
        },
        {
            "op": "ArgMaxD",
            "input_desc": [tensor([1, CLASSES], "float16")],
            "output_desc": [tensor([1], "int32")],
            "attr": [{"name": "dimension", "type": "int", "value": 1}],
        },
    ]
    with open(os.path.join(folder, "op_list.json"), "w") as file:
        json.dump(operators, file)
    command = [
        sys.executable,
        "-m",
        "softnpu.cli.atc",
        "--singleop=op_list.json",
        "--soc_version=Ascend310P3",
        "--output=op_models",
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def forward_op_cast(input_buffer, stream):
    src = acl.create_tensor_desc(ACL_FLOAT, [1, CLASSES], ACL_FORMAT_ND)
    dst = acl.create_tensor_desc(ACL_FLOAT16, [1, CLASSES], ACL_FORMAT_ND)
    size = acl.get_tensor_desc_size(dst)
    dev_buffer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    output_buffer = acl.create_data_buffer(dev_buffer, size)
    check("cast", acl.op.cast(src, input_buffer, dst, output_buffer, 0, stream))
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    check("destroy_tensor_desc", acl.destroy_tensor_desc(src) or 0)
    return dev_buffer, output_buffer, dst


def forward_op_arg_max_d(input_desc, input_buffer, stream):
    output_desc = acl.create_tensor_desc(ACL_INT32, [1], ACL_FORMAT_ND)
    size = acl.get_tensor_desc_size(output_desc)
    dev_buffer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    output_buffer = acl.create_data_buffer(dev_buffer, size)
    attr = acl.op.create_attr()
    check("set_attr_int", acl.op.set_attr_int(attr, "dimension", 1))
    ret = acl.op.execute_v2("ArgMaxD", [input_desc], [input_buffer], [output_desc], [output_buffer], attr, stream)
    check("execute_v2", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    acl.op.destroy_attr(attr)
    acl.destroy_tensor_desc(output_desc)
    return dev_buffer, output_buffer, size


def main():
    with tempfile.TemporaryDirectory() as folder:
        compile_operators(folder)
        check("init", acl.init())
        check("set_device", acl.rt.set_device(0))
        check("set_model_dir", acl.op.set_model_dir(os.path.join(folder, "op_models")))
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # 1. The output of a model: here numbers of our own, the best of them at a place we know.
    scores = np.random.default_rng(65).random((1, CLASSES)).astype(np.float32)
    scores[0, 537] = 2.0
    data = scores.tobytes()
    result, ret = acl.rt.malloc(len(data), ACL_MEM_MALLOC_NORMAL_ONLY)
    check("malloc", ret)
    check("memcpy", acl.rt.memcpy(result, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))
    input_buffer = acl.create_data_buffer(result, len(data))

    # 2. and 3. Cast, then ArgMaxD.
    dev_buffer_cast, output_buffer_cast, cast_desc = forward_op_cast(input_buffer, stream)
    dev_buffer_arg, output_buffer_arg, size = forward_op_arg_max_d(cast_desc, output_buffer_cast, stream)

    # 4. Back to the host.
    host_buffer, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    check("memcpy", acl.rt.memcpy(host_buffer, size, dev_buffer_arg, size, ACL_MEMCPY_DEVICE_TO_HOST))
    # manual slip: printed ptr_to_bytes(buffer_host, self.output_shape); the buffer is host_buffer, the size is in bytes
    label = np.frombuffer(acl.util.ptr_to_bytes(host_buffer, size), dtype=np.int32)
    print(f"[SingleOP][ArgMaxOp] label of classification result is:{label[0]}")
    assert label[0] == 537, label

    # 5. Give back.
    check("free_host", acl.rt.free_host(host_buffer))
    for ptr in (dev_buffer_cast, dev_buffer_arg, result):
        check("free", acl.rt.free(ptr))
    for buffer in (output_buffer_cast, output_buffer_arg, input_buffer):
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
    acl.destroy_tensor_desc(cast_desc)
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
