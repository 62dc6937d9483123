"""Helpers of the tests of `acl.mdl`: small models that atc converts once a session, and a small client.

(Not named `models`: that is the package `tests/models`.)
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import acl
from softnpu.base.dtypes import numpy_name
from softnpu.cli import atc
from tests.support import ok

Array = np.ndarray[Any, Any]
FLOAT, INT32, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8
INVALID, NOT_SUPPORTED = 100000, 200001
SHAPE_INPUT = "ascend_mbatch_shape_data"
LONG = "input_" + "x" * 200
RNG = np.random.default_rng(11)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)
KERNEL = RNG.standard_normal((2, 3, 3, 3)).astype(np.float32)


def onnx_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[Any] | tuple[Any, ...]]],
    outputs: list[str],
    weights: dict[str, Array] | None = None,
) -> onnx.ModelProto:
    """A model of opset 13 whose outputs have the shapes that follow."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, dtype, list(dims)) for name, (dtype, dims) in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def _two() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], "adder"),
        helper.make_node("MatMul", ["a", "w"], ["product"], "dense"),
    ]
    return onnx_model(nodes, {"a": (FLOAT, (2, 3)), "b": (FLOAT, (3,))}, ["sum", "product"], {"w": WEIGHT})


def _one(op: str, dtype: int, *dims: Any, **attrs: Any) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx_model([helper.make_node(op, ["x"], ["y"], "only", **attrs)], {"x": (dtype, dims)}, ["y"])


def _conv(*dims: Any) -> Callable[[], onnx.ModelProto]:
    node = helper.make_node("Conv", ["x", "k"], ["y"], "conv", pads=[1, 1, 1, 1])
    return lambda: onnx_model([node], {"x": (FLOAT, dims)}, ["y"], {"k": KERNEL})


def _fused() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    return onnx_model(nodes, {"x": (FLOAT, (1, 3, 4, 4))}, ["y"], {"k": KERNEL})


def _long_names() -> onnx.ModelProto:
    node = helper.make_node("Neg", [LONG], ["output_" + "y" * 200], "only")
    return onnx_model([node], {LONG: (FLOAT, (2,))}, ["output_" + "y" * 200])


def _outer() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["x", "y"], ["sum"], "adder"),
        helper.make_node("ReduceSum", ["x", "axes"], ["total"], "total", keepdims=0),
    ]
    inputs = {"x": (FLOAT, ["n", "m"]), "y": (FLOAT, ["m"])}
    return onnx_model(nodes, inputs, ["sum", "total"], {"axes": np.array([1], np.int64)})


def _found() -> onnx.ModelProto:
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"], "nonzero"),
        helper.make_node("Neg", ["x"], ["negative"], "minus"),
    ]
    return onnx_model(nodes, {"x": (FLOAT, (3, 4))}, ["where", "negative"])


def _pick() -> onnx.ModelProto:
    """Fails while it runs when an index is outside of x."""
    node = helper.make_node("Gather", ["x", "i"], ["y"], "pick")
    return onnx_model([node], {"x": (FLOAT, (3,)), "i": (INT32, (2,))}, ["y"])


def _twice() -> onnx.ModelProto:
    node = helper.make_node("Neg", ["x"], ["y"], "only")
    model = onnx_model([node], {"x": (FLOAT, (4,))}, ["y"])
    model.graph.output.append(model.graph.output[0])
    return model


def _two_pictures() -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["left", "right"], ["y"], "adder")]
    inputs = dict.fromkeys(("left", "right"), (FLOAT, (1, 3, 8, 8)))
    return onnx_model(nodes, inputs, ["y"])


def _types() -> onnx.ModelProto:
    words = ["float", "float16", "double", "int8", "int16", "int32", "int64"]
    words += ["uint8", "uint16", "uint32", "uint64", "bool"]
    kinds = {word: getattr(TensorProto, word.upper()) for word in words}
    nodes = [helper.make_node("Identity", [word], [f"{word}_out"], f"copy_{word}") for word in words]
    inputs = {word: (kind, (3,)) for word, kind in kinds.items()}
    return onnx_model(nodes, inputs, [f"{word}_out" for word in words])


_STATIC_AIPP = """aipp_op {
  aipp_mode: static input_format: RGB888_U8 src_image_size_w: 10 src_image_size_h: 9
  crop: true load_start_pos_w: 1 load_start_pos_h: 0 crop_size_w: 8 crop_size_h: 8
  mean_chn_0: 104 mean_chn_1: 117 mean_chn_2: 123 var_reci_chn_0: 0.5 var_reci_chn_1: 0.25 var_reci_chn_2: 2
}"""
_DYNAMIC_AIPP = "aipp_op {{ aipp_mode: dynamic related_input_rank: {} max_src_image_size: {} }}\n"
_PICTURE = "--input_format=NCHW"

# name → the model, atc's options, the AIPP configuration
_MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], list[str], str]] = {
    "two": (_two, [], ""),
    "relu": (_one("Relu", FLOAT, 4), [], ""),
    "softmax": (_one("Softmax", FLOAT, 8, 16, axis=-1), [], ""),
    "wide": (_one("Neg", FLOAT, 50), [], ""),
    "conv": (_conv(1, 3, 6, 6), [_PICTURE], ""),
    "fused": (_fused, [_PICTURE], ""),
    "types": (_types, [], ""),
    "long": (_long_names, [], ""),
    "twice": (_twice, [], ""),
    "pick": (_pick, [], ""),
    "batch": (
        _conv("n", 3, 4, 4),
        [_PICTURE, "--input_shape=x:-1,3,4,4", "--dynamic_batch_size=1,2,4"],
        "",
    ),
    "hw": (
        _conv(1, 3, "h", "w"),
        [_PICTURE, "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,8;6,4"],
        "",
    ),
    "dims": (
        _outer,
        ["--input_format=ND", "--input_shape=x:-1,-1;y:-1", "--dynamic_dims=2,3,3;4,5,5"],
        "",
    ),
    "range": (_outer, ["--input_format=ND", "--input_shape_range=x:[1~4,2~6];y:[2~6]"], ""),
    "unbounded": (_one("Neg", FLOAT, "n", 3), ["--input_format=ND", "--input_shape=x:-1,3"], ""),
    "found": (_found, [], ""),
    "static_aipp": (_one("Neg", FLOAT, 1, 3, 8, 8), [_PICTURE], _STATIC_AIPP),
    "dynamic_aipp": (_one("Neg", FLOAT, 1, 3, 8, 8), [_PICTURE], _DYNAMIC_AIPP.format(0, 500)),
    "dynamic_aipp_batch": (
        _one("Neg", FLOAT, "n", 3, 8, 8),
        [_PICTURE, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2"],
        _DYNAMIC_AIPP.format(0, 1000),
    ),
    "two_pictures": (_two_pictures, [_PICTURE], _DYNAMIC_AIPP.format(0, 400) + _DYNAMIC_AIPP.format(1, 400)),
}


@functools.cache
def _folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="softnpu-tests-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def proto(name: str) -> onnx.ModelProto:
    """The ONNX model of a name."""
    return _MODELS[name][0]()


@functools.cache
def om(name: str) -> Path:
    """The converted model of a name."""
    _, options, config = _MODELS[name]
    folder = _folder()
    source = folder / f"{name}.onnx"
    onnx.save(proto(name), source)
    words = [f"--model={source}", "--framework=5", f"--output={folder / name}", "--soc_version=Ascend310P3", *options]
    if config:
        (folder / f"{name}.cfg").write_text(config)
        words.append(f"--insert_op_conf={folder / name}.cfg")
    with contextlib.chdir(folder):
        assert atc.main(words) == 0
    return folder / f"{name}.om"


def load(name: str) -> int:
    """A loaded model."""
    number: int = ok(acl.mdl.load_from_file(str(om(name))))
    return number


def describe(number: int) -> int:
    """The description of a loaded model."""
    desc: int = acl.mdl.create_desc()
    ok(acl.mdl.get_desc(desc, number))
    return desc


def host(data: bytes | bytearray) -> int:
    """The address of bytes on the host, which must outlive the call."""
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


class Memory:
    """Device memory with a data buffer; `size` is what the buffer says."""

    def __init__(self, size: int, array: Array | None = None, room: int = 0) -> None:
        self.size = size
        self.address: int = ok(acl.rt.malloc(max(size, room, 1), 0))
        self.buffer: int = acl.create_data_buffer(self.address, size)
        if array is not None:
            self.put(array)

    def put(self, array: Array) -> None:
        """Copy an array to the device."""
        data = np.ascontiguousarray(array)
        if data.nbytes:
            source = int(data.__array_interface__["data"][0])
            ok(acl.rt.memcpy(self.address, data.nbytes, source, data.nbytes, 1))

    def get(self, dtype: Any, *shape: int) -> Array:
        """What the memory holds, as an array."""
        return read(self.address, dtype, *shape)

    def free(self) -> None:
        """Give the memory back; the buffer keeps its address."""
        ok(acl.rt.free(self.address))


def read(address: int, dtype: Any, *shape: int) -> Array:
    """A copy of device memory as an array."""
    array = np.empty(shape, dtype)
    if array.nbytes:
        ok(acl.rt.memcpy(int(array.__array_interface__["data"][0]), array.nbytes, address, array.nbytes, 2))
    return array


def device(array: Array) -> Memory:
    """An array on the device."""
    return Memory(array.nbytes, array)


def dataset(*memories: Memory | int) -> int:
    """A dataset of these buffers (memory, or the handle of a buffer)."""
    handle: int = acl.mdl.create_dataset()
    for memory in memories:
        ok(acl.mdl.add_dataset_buffer(handle, memory.buffer if isinstance(memory, Memory) else memory))
    return handle


class Net:
    """A loaded model with buffers of the sizes that its description tells."""

    def __init__(self, name: str) -> None:
        self.id = load(name)
        self.desc = describe(self.id)
        mdl = acl.mdl
        counts = mdl.get_num_inputs(self.desc), mdl.get_num_outputs(self.desc)
        self.inputs = [Memory(mdl.get_input_size_by_index(self.desc, index)) for index in range(counts[0])]
        self.outputs = [Memory(mdl.get_output_size_by_index(self.desc, index)) for index in range(counts[1])]
        self.input_dataset, self.output_dataset = dataset(*self.inputs), dataset(*self.outputs)

    def index(self, name: str = SHAPE_INPUT) -> int:
        """The index of an input."""
        number: int = ok(acl.mdl.get_input_index_by_name(self.desc, name))
        return number

    def execute(self, *arrays: Array) -> int:
        """Fill the inputs and run; the code."""
        for memory, array in zip(self.inputs, arrays, strict=False):
            memory.put(array)
        code: int = acl.mdl.execute(self.id, self.input_dataset, self.output_dataset)
        return code

    def output(self, index: int = 0, *shape: int) -> Array:
        """An output, with the model's own dims where none are given."""
        kind = acl.mdl.get_output_data_type(self.desc, index)
        dims = shape or ok(acl.mdl.get_output_dims(self.desc, index))["dims"]
        return self.outputs[index].get(numpy_name(kind), *dims)

    def run(self, *arrays: Array) -> list[Array]:
        """Fill, run, read."""
        ok(self.execute(*arrays))
        return [self.output(index) for index in range(len(self.outputs))]


def convolved(x: Array) -> Array:
    """What the convolution of the models here gives, by its formula in double precision."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, KERNEL.astype(np.float64))


def floats(*shape: int) -> Array:
    """Random numbers."""
    return RNG.standard_normal(shape).astype(np.float32)
