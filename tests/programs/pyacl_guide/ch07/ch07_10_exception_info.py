"""Chapter 7.10: the exception callback learns which operator of a model failed, and on which tensors.

The model picks rows of a table; a row number that the table does not have makes its Gather fail.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

import acl

ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST = 1, 2
ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_FLOAT, ACL_INT64 = 0, 9
NOT_KNOWN = 0xFFFFFFFF
ROWS, WIDTH = 4, 6
operators = []


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_model(folder):
    """The model of the example, through atc as the guide's chapter 4.2 says."""
    nodes = [
        helper.make_node("Abs", ["table"], ["positive"], "make_positive"),
        helper.make_node("Gather", ["positive", "rows"], ["picked"], "pick_rows"),
    ]
    inputs = [
        helper.make_tensor_value_info("table", TensorProto.FLOAT, [ROWS, WIDTH]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, [2]),
    ]
    outputs = [helper.make_tensor_value_info("picked", TensorProto.FLOAT, [2, WIDTH])]
    model = helper.make_model(
        helper.make_graph(nodes, "picker", inputs, outputs), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    onnx.save(model, os.path.join(folder, "picker.onnx"))
    atc = [sys.executable, "-m", "softnpu.cli.atc"]
    options = ["--model=picker.onnx", "--framework=5", "--output=picker", "--soc_version=Ascend310P3"]
    done = subprocess.run([*atc, *options], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return os.path.join(folder, "picker.om")


def make_dataset(arrays):
    """Device memory with the content of the arrays, as a dataset."""
    dataset, places = acl.mdl.create_dataset(), []
    for array in arrays:
        place, ret = acl.rt.malloc(array.nbytes, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        fill(place, array)
        _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(place, array.nbytes))
        check("add_dataset_buffer", ret)
        places.append(place)
    return dataset, places


def fill(place, array):
    data = array.tobytes()
    ret = acl.rt.memcpy(place, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
    check("memcpy", ret)


def free_dataset(dataset, places):
    for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
        check("destroy_data_buffer", acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)))
    check("destroy_dataset", acl.mdl.destroy_dataset(dataset))
    for place in places:
        check("free", acl.rt.free(place))


# 4. The exception callback.
def exception_callback(info):
    stream_id = acl.rt.get_stream_id_from_exception_info(info)
    thread_id = acl.rt.get_thread_id_from_exception_info(info)
    device_id = acl.rt.get_device_id_from_exception_info(info)
    task_id = acl.rt.get_task_id_from_exception_info(info)
    error_code = acl.rt.get_error_code_from_exception_info(info)
    op_name, input_desc, num_inputs, output_desc, num_outputs, ret = acl.mdl.create_and_get_op_desc(
        device_id, stream_id, task_id, 256
    )
    found = {"name": op_name, "ret": ret, "ids": (device_id, stream_id, task_id, thread_id, error_code)}

    found["inputs"] = [describe(acl.get_tensor_desc_by_index(input_desc, i)) for i in range(num_inputs)]
    found["outputs"] = [describe(acl.get_tensor_desc_by_index(output_desc, i)) for i in range(num_outputs)]

    acl.destroy_tensor_desc(input_desc)
    acl.destroy_tensor_desc(output_desc)
    operators.append(found)


def describe(desc):
    address = acl.get_tensor_desc_address(desc)
    num_dims = acl.get_tensor_desc_num_dims(desc)
    dims = []
    for i in range(num_dims):
        dim, ret = acl.get_tensor_desc_dim_v2(desc, i)
        check("get_tensor_desc_dim_v2", ret)
        dims.append(dim)
    data_type, tensor_format = acl.get_tensor_desc_type(desc), acl.get_tensor_desc_format(desc)
    content = b""
    if address:
        size = acl.get_tensor_desc_size(desc)
        content = bytes(size)
        ret = acl.rt.memcpy(acl.util.bytes_to_ptr(content), size, address, size, ACL_MEMCPY_DEVICE_TO_HOST)
        check("memcpy of a tensor", ret)
    return dims, data_type, tensor_format, content


def main():
    # 1. Resources.
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    context, ret = acl.rt.create_context(0)
    check("create_context", ret)
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # 2. The model.
    with tempfile.TemporaryDirectory() as folder:
        model_id, ret = acl.mdl.load_from_file(make_model(folder))
    check("load_from_file", ret)

    # 3. Its datasets.
    table = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) - 10
    input_dataset, input_places = make_dataset([table, np.array([3, 1], np.int64)])
    output_dataset, output_places = make_dataset([np.zeros((2, WIDTH), np.float32)])

    # 5. Set the callback.
    ret = acl.rt.set_exception_info_callback(exception_callback)
    check("set_exception_info_callback", ret)

    # 6. Run: once as it should be, once with a row that is not there.
    ret = acl.mdl.execute(model_id, input_dataset, output_dataset)
    check("execute", ret)
    assert not operators, "nothing has failed yet"
    wrong = np.array([3, 40], np.int64)
    fill(input_places[1], wrong)
    ret = acl.mdl.execute(model_id, input_dataset, output_dataset)
    assert ret != 0, "a row that is not there must be an error"

    # 7. What the callback learned.
    assert len(operators) == 1, f"one operator failed, the callback came {len(operators)} times"
    found = operators[0]
    print(f"{found['name']} failed on {[(dims, data_type) for dims, data_type, _, _ in found['inputs']]}")
    assert (found["name"], found["ret"]) == ("pick_rows", 0)
    device_id, stream_id, task_id, thread_id, error_code = found["ids"]
    assert device_id == 0 and NOT_KNOWN not in (stream_id, task_id, thread_id) and error_code == ret
    assert [(dims, data_type) for dims, data_type, _, _ in found["inputs"][:2]] == [
        ([ROWS, WIDTH], ACL_FLOAT),
        ([2], ACL_INT64),
    ]
    assert found["inputs"][0][3] == np.abs(table).tobytes(), "the first input is what the operator before made"
    assert found["inputs"][1][3] == wrong.tobytes()
    assert [dims for dims, _, _, _ in found["outputs"]] == [[2, WIDTH]]

    # 8. Give the model back.
    check("set_exception_info_callback(None)", acl.rt.set_exception_info_callback(None))
    free_dataset(input_dataset, input_places)
    free_dataset(output_dataset, output_places)
    check("unload", acl.mdl.unload(model_id))

    # 9. Give the rest back.
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
