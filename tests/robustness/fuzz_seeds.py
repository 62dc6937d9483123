"""Small valid files of every kind that softnpu reads, from which the fuzzer makes hostile ones."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from softnpu.cli import atc
from softnpu.compiler.frontends.tensorflow.proto import GRAPH as TENSORFLOW_GRAPH
from softnpu.graph.wire import encode
from tests.caffe_support import caffemodel

TYPES = (
    "float32",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "bool",
    "float16",
    "float64",
    "uint32",
    "uint64",
)
SOC = "--soc_version=Ascend310P3"
RNG = np.random.default_rng(7)


@dataclass
class Seed:
    """A valid set of files: which of them is mutated, and the command line that reads them."""

    kind: str
    name: str
    target: str  # the file that is mutated; "" mutates a word of the command line
    argv: list[str] = field(default_factory=list)  # {in} is the folder of the files, {out} that of results
    files: list[str] = field(default_factory=list)


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def info(name: str, shape: list[Any] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any], opset: int = 13) -> bytes:
    """The bytes of an ONNX model."""
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    model_proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model_proto)
    return bytes(model_proto.SerializeToString())


# ---- ONNX ------------------------------------------------------------------------------------------------------------


def picture_net(batch: Any = 1, size: Any = 8) -> bytes:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "norm"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "g"], ["y"], "gemm", alpha=0.5),
    ]
    weights = {"w": tensor(8, 3, 3, 3), "b": tensor(8), "s": tensor(8), "m": tensor(8), "v": abs(tensor(8)) + 1}
    return model(nodes, [info("x", [batch, 3, size, size])], [info("y", [batch, 5])], {**weights, "g": tensor(8, 5)})


def branches() -> bytes:
    then = helper.make_graph([helper.make_node("Add", ["x", "one"], ["a"])], "then", [], [info("a", [2, 3])])
    other = helper.make_graph([helper.make_node("Mul", ["x", "one"], ["m"])], "else", [], [info("m", [2, 3])])
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["state", "one"], ["next"])],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("state", [2, 3])],
        [info("on", [], TensorProto.BOOL), info("next", [2, 3])],
    )
    nodes = [
        helper.make_node("If", ["cond"], ["branch"], "if", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["count", "cond", "branch"], ["y"], "loop", body=body),
    ]
    inputs = [info("x", [2, 3]), info("cond", [], TensorProto.BOOL)]
    weights = {"one": np.ones((2, 3), np.float32), "count": np.array(3, np.int64)}
    return model(nodes, inputs, [info("y", [2, 3])], weights, 16)


def all_types() -> bytes:
    """Initializers of every type, as raw bytes and as typed lists."""
    nodes, tensors = [], []
    for number, word in enumerate(TYPES):
        array = np.arange(4).astype(word)
        raw = numpy_helper.from_array(array, f"raw{number}")
        typed = helper.make_tensor(f"typed{number}", raw.data_type, [4], array.tolist())
        tensors += [raw, typed]
        for tensor in (raw, typed):
            nodes.append(helper.make_node("Cast", [tensor.name], [f"{tensor.name}_f"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Sum", ["x", *(f"{tensor.name}_f" for tensor in tensors)], ["y"], "sum"))
    outputs = [info("y", [4])]
    graph = helper.make_graph(nodes, "types", [info("x", [4])], outputs, tensors)
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0]),
            helper.make_tensor("where", TensorProto.INT64, [2], [1, 3]),
            [4],
        )
    )
    graph.node.append(helper.make_node("Add", ["y", "sparse"], ["z"], "add"))
    graph.output.append(info("z", [4]))
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


def shape_arithmetic() -> bytes:
    """Shape, Gather, Concat, Reshape, Range, Expand: values that become sizes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sh"], "shape"),
        helper.make_node("Gather", ["sh", "zero"], ["d0"], "gather", axis=0),
        helper.make_node("Concat", ["d0", "minus"], ["to"], "concat", axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"], "reshape"),
        helper.make_node("ConstantOfShape", ["four"], ["k"], "fill"),
        helper.make_node("Range", ["begin", "end", "step"], ["range"], "range"),
        helper.make_node("Cast", ["range"], ["fr"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Tile", ["fr", "three"], ["t"], "tile"),
        helper.make_node("Expand", ["t", "wide"], ["e"], "expand"),
        helper.make_node("Slice", ["e", "zero", "four"], ["sl"], "slice"),
        helper.make_node("Add", ["r", "k"], ["y"], "add"),
    ]
    weights: dict[str, Any] = {"zero": np.array([0]), "minus": np.array([-1]), "four": np.array([4])}
    weights |= {"begin": np.array(0), "end": np.array(6), "step": np.array(2), "three": np.array([3])}
    weights["wide"] = np.array([5, 9])
    return model(nodes, [info("x", [2, 2, 2])], [info("y", [2, 4]), info("sl", [4, 9])], weights)


def recurrent() -> bytes:
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["h", "", "c"], "lstm", hidden_size=4),
        helper.make_node("Squeeze", ["h", "axes"], ["s"], "squeeze"),
        helper.make_node("Softmax", ["s"], ["p"], "soft", axis=-1),
        helper.make_node("TopK", ["p", "k"], ["y", "index"], "top"),
        helper.make_node("Resize", ["x4", "", "scales"], ["z"], "resize", mode="linear"),
        helper.make_node("Pad", ["z", "pads"], ["q"], "pad"),
    ]
    weights = {"w": tensor(1, 16, 3), "r": tensor(1, 16, 4), "axes": np.array([1]), "k": np.array([2])}
    weights |= {"scales": np.array([1, 1, 2, 2], np.float32), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    inputs = [info("x", [5, 2, 3]), info("x4", [1, 1, 3, 3])]
    outputs = [info("y", [5, 2, 2]), info("index", [5, 2, 2], TensorProto.INT64), info("q", [1, 1, 8, 8])]
    return model(nodes, inputs, outputs, weights)


def external(folder: Path) -> bytes:
    """Weights in a file beside the model."""
    net = onnx.load_from_string(picture_net())
    (folder / "x.onnx").unlink(missing_ok=True)
    onnx.save(net, folder / "x.onnx", save_as_external_data=True, location="x.bin", size_threshold=0)
    return (folder / "x.onnx").read_bytes()


# ---- Caffe, TensorFlow and text files --------------------------------------------------------------------------------

PROTOTXT = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 1 bias_term: true } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" batch_norm_param { eps: 1e-5 } }
layer { name: "relu" type: "ReLU" bottom: "bn" top: "bn" }
layer { name: "pool" type: "Pooling" bottom: "bn" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 6 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" softmax_param { axis: 1 } }
"""
PROPOSAL = """name: "rpn"
layer { name: "cls" type: "Input" top: "cls" input_param { shape { dim: 1 dim: 18 dim: 4 dim: 4 } } }
layer { name: "box" type: "Input" top: "box" input_param { shape { dim: 1 dim: 36 dim: 4 dim: 4 } } }
layer { name: "info" type: "Input" top: "info" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "relu" type: "ReLU" bottom: "cls" top: "pos" }
layer { name: "roi" type: "Proposal" bottom: "pos" bottom: "box" bottom: "info" top: "rois" top: "num"
  proposal_param { feat_stride: 16 base_size: 16 min_size: 16 pre_nms_topn: 100 post_nms_topn: 8 iou_threshold: 0.7
    ratio: [0.5, 1, 2] scale: [8, 16, 32] } }
"""
AIPP = """aipp_op {
  aipp_mode: static
  related_input_rank: 0
  src_image_size_w: 16
  src_image_size_h: 16
  input_format: YUV420SP_U8
  csc_switch: true
  rbuv_swap_switch: false
  matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359 matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
  matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
  input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
  crop: true load_start_pos_w: 4 load_start_pos_h: 2 crop_size_w: 8 crop_size_h: 8
  mean_chn_0: 104 mean_chn_1: 117 mean_chn_2: 123 min_chn_0: 0.1 var_reci_chn_0: 0.0171
}
"""
DYNAMIC_AIPP = "aipp_op { aipp_mode: dynamic related_input_rank: 0 max_src_image_size: 4096 }\n"
FUSION = "ConvBatchnormFusionPass:off\nALL:on\n"
FUSION_JSON = {"Switch": {"GraphFusion": {"ALL": "off", "ConvBatchnormFusionPass": "on"}, "UBFusion": {"ALL": "on"}}}
KEEP = "conv\nOpType::Relu\n"
MIXLIST = {"black-list": {"to-add": ["Relu"], "to-remove": ["Log"]}, "white-list": {"to-add": ["Softmax"]}}
CUSTOM = "conv::InputDtype:float16,float16,OutputDtype:float16\nOpType::Relu:InputDtype:float32,OutputDtype:float32\n"
IMPLMODE = "[ByOpType]\nSoftmaxV2=high_precision\n[ByNodeName]\ngemm=high_performance\n"
ACL_JSON = {
    "dump": {
        "dump_path": "/tmp", "dump_mode": "all", "dump_list": [{"model_name": "m", "layer": ["a", "b"]}], "dump_step": "0|3-5",
        "dump_op_switch": "off",
    },
    "profiler": {"switch": "off", "output": ".", "aic_metrics": "Memory", "sys_hardware_mem_freq": "50"},
    "max_opqueue_num": "20000", "err_msg_mode": "1", "defaultDevice": {"default_device": "0"},
    "StackSize": {"aicore_stack_size": 32768},
}  # fmt: skip


def desc(shape: list[int], kind: str = "float") -> dict[str, Any]:
    return {"format": "ND", "shape": shape, "type": kind}


SINGLE = [
    {"op": "Add", "name": "a", "input_desc": [desc([3, 3], "int32")] * 2, "output_desc": [desc([3, 3], "int32")]},
    {
        "op": "SoftmaxV2",
        "input_desc": [desc([-1, 8]) | {"shape_range": [[1, 4]]}],
        "output_desc": [desc([-1, 8])],
        "attr": [{"name": "axes", "type": "list_int", "value": [-1]}],
    },
    {
        "op": "Transpose",
        "input_desc": [desc([2, 3]), desc([2], "int64") | {"is_const": True, "const_value": [1, 0]}],
        "output_desc": [desc([3, 2])],
    },
]


def tensorflow() -> bytes:
    """A frozen graph: convolution, bias, relu, reshape, matrix product."""
    number = {"type": 1}

    def const(name: str, array: Any) -> dict[str, Any]:
        shape = {"dim": [{"size": size} for size in array.shape]}
        kind = 1 if array.dtype == np.float32 else 3
        value = {"dtype": kind, "tensor_shape": shape, "tensor_content": array.tobytes()}
        return {"name": name, "op": "Const", "attr": {"dtype": {"type": kind}, "value": {"tensor": value}}}

    def op(kind: str, name: str, *inputs: str, **attrs: Any) -> dict[str, Any]:
        return {"name": name, "op": kind, "input": list(inputs), "attr": {"T": number, **attrs}}

    ones, same = {"list": {"i": [1, 1, 1, 1]}}, {"s": b"SAME"}
    shape = {"shape": {"dim": [{"size": size} for size in (1, 4, 4, 3)]}}
    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": number, "shape": shape}},
        const("w", tensor(3, 3, 3, 2)),
        const("b", tensor(2)),
        const("to", np.array([1, 32], np.int32)),
        const("m", tensor(32, 3)),
        op("Conv2D", "conv", "x", "w", strides=ones, padding=same, data_format={"s": b"NHWC"}),
        op("BiasAdd", "bias", "conv", "b"),
        op("Relu", "relu", "bias"),
        op("Reshape", "flat", "relu", "to", Tshape={"type": 3}),
        op("MatMul", "y", "flat", "m", transpose_a={"b": False}, transpose_b={"b": False}),
        op("Softmax", "prob", "y"),
    ]
    return encode(TENSORFLOW_GRAPH, {"node": nodes})


# ---- laying them out -------------------------------------------------------------------------------------------------


def convert(*more: str, framework: int = 5, model_file: str = "m.onnx") -> list[str]:
    """A command line that converts."""
    base = [f"--model={{in}}/{model_file}", f"--framework={framework}", "--output={out}/case", SOC]
    return [*base, *more]


def lay_out(folder: Path) -> list[Seed]:
    """Write every seed below a folder and its list beside them."""
    seeds: list[Seed] = []

    def add(kind: str, name: str, target: str, argv: list[str], **files: bytes | str) -> None:
        place = folder / kind / name
        place.mkdir(parents=True, exist_ok=True)
        for word, content in files.items():
            path = place / word.replace("__", ".")
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        names = sorted(path.name for path in place.iterdir())
        seeds.append(Seed(kind, name, target, argv, names))

    _models(add, folder)
    _texts(add)
    _options(add)
    _oms(add, folder)
    (folder / "seeds.json").write_text(json.dumps([asdict(seed) for seed in seeds]), encoding="utf-8")
    return seeds


def _models(add: Any, folder: Path) -> None:
    nets = {
        "picture": picture_net(), "branches": branches(), "types": all_types(), "shapes": shape_arithmetic(),
        "recurrent": recurrent(),
    }  # fmt: skip
    for name, data in nets.items():
        add("onnx", name, "m.onnx", convert(), m__onnx=data)
    add("onnx", "half", "m.onnx", convert("--precision_mode=force_fp16"), m__onnx=nets["picture"])
    add("onnx", "weights", "m.onnx", convert("--external_weight=2"), m__onnx=nets["picture"])
    look = ["--mode=1", "--om={in}/m.onnx", "--framework=5", "--json={out}/case.json", "--dump_mode=1"]
    add("onnx", "look", "m.onnx", look, m__onnx=nets["recurrent"])
    precheck = ["--mode=3", "--model={in}/m.onnx", "--framework=5", "--check_report={out}/case.json", SOC]
    add("onnx", "precheck", "m.onnx", precheck, m__onnx=nets["branches"])
    data = external(folder)
    for target in ("m.onnx", "x.bin"):
        add("onnx", f"external-{target[0]}", target, convert(), m__onnx=data, x__bin=(folder / "x.bin").read_bytes())
    blobs = {
        "conv": [tensor(4, 3, 3, 3), tensor(4)],
        "bn": [tensor(4), abs(tensor(4)) + 1, np.ones(1, np.float32)],
        "fc": [tensor(6, 64), tensor(6)],
    }
    kinds = {"data": "Input", "conv": "Convolution", "bn": "BatchNorm", "fc": "InnerProduct"}
    weights = caffemodel(blobs, kinds)
    line = convert("--weight={in}/m.caffemodel", framework=0, model_file="m.prototxt")
    for target in ("m.prototxt", "m.caffemodel"):
        add("caffe", target[2:], target, line, m__prototxt=PROTOTXT, m__caffemodel=weights)
    empty = caffemodel({}, {"relu": "ReLU"})
    add("caffe", "proposal", "m.prototxt", line, m__prototxt=PROPOSAL, m__caffemodel=empty)
    graph = tensorflow()
    add("tensorflow", "graph", "m.pb", convert(framework=3, model_file="m.pb"), m__pb=graph)
    look = ["--mode=1", "--om={in}/m.pb", "--framework=3", "--json={out}/case.json"]
    add("tensorflow", "look", "m.pb", look, m__pb=graph)


def _texts(add: Any) -> None:
    single = ["--singleop={in}/ops.json", "--output={out}", SOC]
    for index, description in enumerate(SINGLE):
        add("singleop", f"one{index}", "ops.json", single, ops__json=json.dumps([description]))
    add("singleop", "all", "ops.json", single, ops__json=json.dumps(SINGLE, indent=1))
    net = picture_net()
    for name, text in (("static", AIPP), ("dynamic", DYNAMIC_AIPP)):
        add("aipp", name, "a.cfg", convert("--insert_op_conf={in}/a.cfg"), m__onnx=net, a__cfg=text)
    files = {
        "fusion_switch_file": (FUSION, json.dumps(FUSION_JSON)), "keep_dtype": (KEEP,), "modify_mixlist": (json.dumps(MIXLIST),),
        "customize_dtypes": (CUSTOM,), "op_precision_mode": (IMPLMODE,), "raw_ge_options": ('{"compile options": {"global": {}, "session": {}, "graph": {}}}',),
    }  # fmt: skip
    for option, texts in files.items():
        more = ["--precision_mode_v2=mixed_float16"] if option == "modify_mixlist" else []
        for index, text in enumerate(texts):
            line = convert(f"--{option}={{in}}/c.cfg", *more)
            add("config", f"{option}{index}", "c.cfg", line, m__onnx=net, c__cfg=text)
    add("acl_json", "all", "acl.json", [], acl__json=json.dumps(ACL_JSON, indent=1))
    add("acl_json", "short", "acl.json", [], acl__json='{"dump": {"dump_path": "/tmp", "dump_list": []}}')


def _options(add: Any) -> None:
    net, open_net = picture_net(), picture_net("n", "s")
    lines = {
        "shape": (net, ["--input_shape=x:1,3,8,8", "--out_nodes=relu:0;gemm:0", "--output_type=relu:0:FP16;gemm:0:FP32"]),
        "batch": (open_net, ["--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2,4"]),
        "image": (open_net, ["--input_shape=x:1,3,-1,-1", "--dynamic_image_size=8,8;16,16"]),
        "dims": (open_net, ["--input_shape=x:-1,3,-1,8", "--dynamic_dims=1,8;2,16", "--input_format=ND"]),
        "range": (open_net, ["--input_shape_range=x:[1~4,3,8~16,-1]"]),
        "tilde": (open_net, ["--input_shape=x:1~4,3,8~16,-1", "--input_hint_shape=0:[1,3,8,8]"]),
        "half": (net, ["--input_fp16_nodes=x", "--is_input_adjust_hw_layout=true", "--optimization_switch=A:on;B:off"]),
        "words": (net, ["--log=null", "--aicore_num=8|4", "--precision_mode=force_fp16", "--external_weight=2"]),
    }  # fmt: skip
    for name, (data, more) in lines.items():
        add("option", name, "", convert(*more), m__onnx=data)


def _oms(add: Any, folder: Path) -> None:
    """Offline models, made by atc from the seeds above."""
    net, open_net = picture_net(), picture_net("n", "s")
    room = folder / "made"
    room.mkdir(exist_ok=True)
    for name, text in (
        ("a.cfg", AIPP), ("d.cfg", DYNAMIC_AIPP), ("p.prototxt", PROPOSAL), ("ops.json", json.dumps(SINGLE[:1])),
    ):  # fmt: skip
        (room / name).write_text(text, encoding="utf-8")
    (room / "p.caffemodel").write_bytes(caffemodel({}, {"relu": "ReLU"}))
    (room / "net.onnx").write_bytes(net)
    (room / "open.onnx").write_bytes(open_net)
    (room / "branches.onnx").write_bytes(branches())
    static, flexible = ["--model={room}/net.onnx", "--framework=5"], ["--model={room}/open.onnx", "--framework=5"]
    lines = {
        "static": static,
        "aipp": [*static, "--insert_op_conf={room}/a.cfg"],
        "dynamic_aipp": [*static, "--insert_op_conf={room}/d.cfg"],
        "batch": [*flexible, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2,4"],
        "image": [*flexible, "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=8,8;16,16"],
        "dims": [*flexible, "--input_shape=x:-1,3,-1,8", "--dynamic_dims=1,8;2,16", "--input_format=ND"],
        "range": [*flexible, "--input_shape=x:1~4,3,8~16,-1"],
        "branches": ["--model={room}/branches.onnx", "--framework=5"],
        "mixed": ["--model={room}/p.prototxt", "--weight={room}/p.caffemodel", "--framework=0"],
    }
    for name, line in lines.items():
        _run([*(word.format(room=room) for word in line), f"--output={room}/{name}", SOC])
        for kind in ("om", "program"):
            add(kind, name, "m.om", [], m__om=(room / f"{name}.om").read_bytes())
    _run([f"--singleop={room}/ops.json", f"--output={room}/single", SOC])
    (single,) = (room / "single").iterdir()
    add("om", "single", "m.om", [], m__om=single.read_bytes())
    data = (room / "static.om").read_bytes()
    add("om_look", "json", "m.om", ["--mode=1", "--om={in}/m.om", "--json={out}/case.json"], m__om=data)
    add("om_look", "info", "m.om", ["--mode=6", "--om={in}/m.om"], m__om=data)


def _run(argv: list[str]) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = atc.main(argv)
    if status:
        raise RuntimeError(f"a seed cannot be made: atc {' '.join(argv)}\n{said.getvalue()}")


def read_list(folder: Path) -> list[Seed]:
    """The seeds that `lay_out` wrote."""
    return [Seed(**row) for row in json.loads((folder / "seeds.json").read_text(encoding="utf-8"))]
