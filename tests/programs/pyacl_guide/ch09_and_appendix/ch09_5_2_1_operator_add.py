"""Chapter 9.5.2.1, acl_operator_add: C = A + B of 8×16 int32 matrices by a single-operator model."""

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
ACL_INT32 = 3
ACL_FORMAT_ND = 2
SHAPE = [8, 16]
MODEL = "0_Add_3_2_8_16_3_2_8_16_3_2_8_16.om"


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


# atc --singleop=config/add_op.json --soc_version=Ascendxxx --output=op_models
def convert(folder):
    os.mkdir(os.path.join(folder, "config"))
    tensor = {"format": "ND", "shape": SHAPE, "type": "int32"}
    with open(os.path.join(folder, "config", "add_op.json"), "w") as file:
        json.dump([{"op": "Add", "input_desc": [tensor, tensor], "output_desc": [tensor]}], file)
    command = [
        sys.executable,
        "-m",
        "softnpu.cli.atc",
        "--singleop=config/add_op.json",
        "--soc_version=Ascend310P3",
        "--output=op_models",
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert os.listdir(os.path.join(folder, "op_models")) == [MODEL], os.listdir(os.path.join(folder, "op_models"))


class Operator:
    def __init__(self, device_id, model_path):
        print("init resource stage:")
        self.device_id = device_id
        check("init", acl.init())
        check("set_device", acl.rt.set_device(device_id))
        self.context, ret = acl.rt.create_context(device_id)
        check("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check("create_stream", ret)
        check("set_model_dir", acl.op.set_model_dir(model_path))
        self.op_attr = acl.op.create_attr()
        self.descs, self.buffers, self.device = [], [], []
        print("init resource success")

    def tensor(self, data):
        desc = acl.create_tensor_desc(ACL_INT32, SHAPE, ACL_FORMAT_ND)
        size = acl.get_tensor_desc_size(desc)
        ptr, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        if data is not None:
            content = data.tobytes()
            host = acl.util.bytes_to_ptr(content)
            check("memcpy", acl.rt.memcpy(ptr, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE))
        self.descs.append(desc)
        self.device.append(ptr)
        self.buffers.append(acl.create_data_buffer(ptr, size))

    def run(self, a, b):
        print("gen input data stage:")
        self.tensor(a)
        self.tensor(b)
        print("gen output data stage:")
        self.tensor(None)
        print("execute stage:")
        ret = acl.op.execute(
            "Add", self.descs[:2], self.buffers[:2], self.descs[2:], self.buffers[2:], self.op_attr, self.stream
        )
        check("execute", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        print("get operator result stage:")
        size = acl.get_tensor_desc_size(self.descs[2])
        host, ret = acl.rt.malloc_host(size)
        check("malloc_host", ret)
        check("memcpy", acl.rt.memcpy(host, size, self.device[2], size, ACL_MEMCPY_DEVICE_TO_HOST))
        result = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.int32).reshape(SHAPE)
        check("free_host", acl.rt.free_host(host))
        return result

    def release(self):
        print("release source stage:")
        for desc in self.descs:
            acl.destroy_tensor_desc(desc)
        for buffer in self.buffers:
            check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
        for ptr in self.device:
            check("free", acl.rt.free(ptr))
        acl.op.destroy_attr(self.op_attr)
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(self.device_id))
        check("finalize", acl.finalize())
        print("release source success")


def main():
    a = np.random.randint(100, size=SHAPE).astype(np.int32)
    b = np.random.randint(100, size=SHAPE).astype(np.int32)
    print("factor_a:", a, "factor_b:", b, sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        convert(folder)
        operator = Operator(0, os.path.join(folder, "op_models"))
        result = operator.run(a, b)
    print("shape:", result.shape, "ACL output:", result, sep="\n")
    assert (result == a + b).all()
    operator.release()


if __name__ == "__main__":
    main()
