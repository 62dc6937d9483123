"""Chapter 7.12: the operator that overflows leaves two files, and what they say is read back."""

import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import acl

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEM_MALLOC_NORMAL_ONLY = 2
FLOAT_OVERFLOW = 0x20
SIZE = 8
ACL_JSON = """
{
 "dump":{
 "dump_path":"output",
 "dump_debug":"on"
 }
}
"""


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_model():
    """exp(|x|) through atc, with the option that the guide asks for."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "net/abs"),
        helper.make_node("Exp", ["a"], ["y"], "net/exp.1"),
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "grow", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    onnx.save(model, "grow.onnx")
    atc = [sys.executable, "-m", "softnpu.cli.atc"]
    options = ["--model=grow.onnx", "--framework=5", "--output=grow", "--soc_version=Ascend310P3", "--status_check=1"]
    done = subprocess.run([*atc, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def fill(place, array):
    data = array.tobytes()
    ret = acl.rt.memcpy(place, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
    check("memcpy", ret)


def dump_files():
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk("output") for name in names)


def content_of(path):
    """Behind the length and the message of a dump file stand the raw tensors."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    return data[8 + length :]


def main():
    start = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            run()
        finally:
            os.chdir(start)


def run():
    make_model()
    os.mkdir("output")
    with open("acl.json", "w", encoding="utf-8") as config:
        config.write(ACL_JSON)

    # Collect.
    check("init", acl.init("acl.json"))
    check("set_device", acl.rt.set_device(0))
    model_id, ret = acl.mdl.load_from_file("grow.om")
    check("load_from_file", ret)
    places, datasets, buffers = [], [], []
    for _ in range(2):
        place, ret = acl.rt.malloc(4 * SIZE, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        dataset, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(place, 4 * SIZE)
        _, ret = acl.mdl.add_dataset_buffer(dataset, buffer)
        check("add_dataset_buffer", ret)
        places.append(place)
        datasets.append(dataset)
        buffers.append(buffer)

    fill(places[0], np.ones(SIZE, np.float32))
    check("execute", acl.mdl.execute(model_id, *datasets))
    assert not dump_files(), "nothing overflowed, yet there are files"

    large = np.array([-1000, 2, 3, 4, 5, 6, 7, 1000], np.float32)
    fill(places[0], large)
    check("execute", acl.mdl.execute(model_id, *datasets))

    # Two files: {op_type}.{op_name}.{taskid}.{stream_id}.{timestamp} and OpDebug.Node_Opdebug.{taskid}.{stream_id}.{timestamp}
    files = {os.path.basename(path).split(".")[0]: path for path in dump_files()}
    assert sorted(files) == ["Exp", "OpDebug"], files
    parts = os.path.basename(files["Exp"]).split(".")
    assert parts[1] == "net_exp_1" and len(parts) == 5, parts
    assert os.path.basename(files["OpDebug"]).startswith("OpDebug.Node_Opdebug.")

    # Inputs and outputs of the operator.
    content = np.frombuffer(content_of(files["Exp"]), np.float32).reshape(2, SIZE)
    with np.errstate(over="ignore"):
        wanted = np.exp(np.abs(large))
    assert (content[0] == np.abs(large)).all()
    np.testing.assert_allclose(content[1], wanted, rtol=1e-5)

    # The overflow record: AI core information from byte 256, its status from byte 1024.
    record = content_of(files["OpDebug"])
    model, stream, task = struct.unpack_from("<3Q", record, 256)
    (status,) = struct.unpack_from("<I", record, 1024)
    print(f"model {model}, stream {stream}, task {task}, status {status}")
    assert (model, str(task), str(stream)) == (model_id, parts[2], parts[3])
    assert status == FLOAT_OVERFLOW

    for place, dataset, buffer in zip(places, datasets, buffers):
        check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
        check("destroy_dataset", acl.mdl.destroy_dataset(dataset))
        check("free", acl.rt.free(place))
    check("unload", acl.mdl.unload(model_id))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
