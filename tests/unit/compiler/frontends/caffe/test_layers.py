"""The Caffe frontend: nets of a few layers against OpenCV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.caffe.reader import read
from tests.caffe_support import caffemodel, net, run, write
from tests.unit.compiler.frontends.caffe.caffe_nets import MAP, Array, compare, head, layer, rand

CASES: dict[str, tuple[str, dict[str, list[Array]], dict[str, Array]]] = {}


def case(name: str, text: str, blobs: list[Array] | None = None, x: Array | None = None, **more: Array) -> None:
    feeds = {"x": rand(*MAP) if x is None else x, **more}
    CASES[name] = (head(**{key: array.shape for key, array in feeds.items()}) + text, {"y": blobs or []}, feeds)


def conv(name: str, kind: str, param: str, *blobs: Array) -> None:
    case(name, layer(kind, f"convolution_param {{ {param} }}"), list(blobs))


conv("convolution", "Convolution", "num_output: 4 kernel_size: 3", rand(4, 6, 3, 3), rand(4))
conv(
    "convolution_window",
    "Convolution",
    "num_output: 4 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0",
    rand(4, 6, 3, 2),
    rand(4),
)
conv(
    "convolution_groups",
    "Convolution",
    "num_output: 9 kernel_size: 3 pad: 2 dilation: 2 group: 3 bias_term: false",
    rand(9, 2, 3, 3),
)
conv(
    "convolution_depthwise",
    "Convolution",
    "num_output: 6 kernel_size: 3 pad: 1 stride: 2 group: 6",
    rand(6, 1, 3, 3),
    rand(6),
)
conv("deconvolution", "Deconvolution", "num_output: 5 kernel_size: 4 stride: 2 pad: 1", rand(6, 5, 4, 4), rand(5))
conv(
    "deconvolution_groups",
    "Deconvolution",
    "num_output: 6 kernel_size: 4 stride: 2 pad: 1 group: 6 bias_term: false",
    rand(6, 1, 4, 4),
)
for _pool in ("MAX", "AVE"):
    for _window in (
        "kernel_size: 2 stride: 2",
        "kernel_size: 3 stride: 2",
        "kernel_size: 3 stride: 2 pad: 1",
        "kernel_h: 4 kernel_w: 3 stride: 3 pad_h: 1 pad_w: 2",
        "global_pooling: true",
    ):
        case(f"pooling_{_pool}_{_window}", layer("Pooling", f"pooling_param {{ pool: {_pool} {_window} }}"))
case("inner_product", layer("InnerProduct", "inner_product_param { num_output: 7 }"), [rand(7, 594), rand(7)])
case(
    "inner_product_axis",
    layer("InnerProduct", "inner_product_param { num_output: 3 axis: 2 bias_term: false }"),
    [rand(3, 99)],
)
case("relu", layer("ReLU"))
case("leaky", layer("ReLU", "relu_param { negative_slope: 0.1 }"))
case("prelu", layer("PReLU"), [rand(6)])
case("elu", layer("ELU", "elu_param { alpha: 0.5 }"))
case("sigmoid", layer("Sigmoid"))
case("tanh", layer("TanH"))
case("abs", layer("AbsVal"))
case("bnll", layer("BNLL"))
case("power", layer("Power", "power_param { power: 2 scale: 0.5 shift: 3 }"))
case("exp", layer("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"))
case("relu6", layer("ReLU6"), x=rand(*MAP, high=9))
case("dropout", layer("Dropout", "dropout_param { dropout_ratio: 0.3 }"))
case("lrn", layer("LRN", "lrn_param { local_size: 3 alpha: 2 beta: 0.6 }"))
case("lrn_within", layer("LRN", "lrn_param { local_size: 3 alpha: 2 beta: 0.6 norm_region: WITHIN_CHANNEL }"))
case("softmax", layer("Softmax"))
case("softmax_axis", layer("Softmax", "softmax_param { axis: 3 }"))
case("flatten", layer("Flatten"))
case("flatten_some", layer("Flatten", "flatten_param { axis: 1 end_axis: 2 }"))
case("reshape", layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 11 } }"))
case("permute", layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"))
case("concat", layer("Concat", bottom="x z"), z=rand(2, 3, 9, 11, seed=2))
case(
    "eltwise_sum", layer("Eltwise", "eltwise_param { operation: SUM coeff: 2 coeff: -1 }", "x z"), z=rand(*MAP, seed=2)
)
case("eltwise_prod", layer("Eltwise", "eltwise_param { operation: PROD }", "x z"), z=rand(*MAP, seed=2))
case("eltwise_max", layer("Eltwise", "eltwise_param { operation: MAX }", "x z"), z=rand(*MAP, seed=2))
case(
    "batch_norm",
    layer("BatchNorm", "batch_norm_param { eps: 0.01 }"),
    [rand(6), rand(6, low=0.5), np.array([2.5], np.float32)],
)
case("scale", layer("Scale", "scale_param { bias_term: true }"), [rand(6), rand(6, seed=3)])
case("mvn", layer("MVN"))
case("mvn_across", layer("MVN", "mvn_param { across_channels: true normalize_variance: false }"))
case("crop", layer("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", "x z"), z=rand(2, 6, 5, 4))
case("normalize", layer("Normalize", "norm_param { across_spatial: false channel_shared: false }"), [rand(6)])
case("reorg", layer("Reorg", "reorg_param { stride: 2 }"), x=rand(1, 8, 4, 6))
case("shuffle", layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"))
case("interp", layer("Interp", "interp_param { height: 13 width: 20 }"))
case("interp_zoom", layer("Interp", "interp_param { zoom_factor: 3 }"))
_PRIOR = (
    "min_size: 20 max_size: 40 aspect_ratio: 2 aspect_ratio: 3 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
)
case(
    "prior_box",
    layer("PriorBox", f"prior_box_param {{ {_PRIOR} flip: true clip: true }}", "x z"),
    x=rand(1, 4, 5, 7),
    z=rand(1, 3, 100, 140),
)
case(
    "prior_box_step",
    layer("PriorBox", "prior_box_param { min_size: 9 step: 16 offset: 0.4 variance: 0.1 }", "x z"),
    x=rand(1, 4, 5, 7),
    z=rand(1, 3, 80, 112),
)
_ROIS = np.array([[0, 1, 2, 70, 90], [1, 30, 0, 100, 40], [0, 5, 5, 6, 6]], np.float32)
case(
    "roi_pooling",
    layer("ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.1 }", "x r"),
    r=_ROIS,
)


@pytest.mark.parametrize("name", CASES)
def test_a_layer_does_what_opencv_does(name: str, tmp_path: Path) -> None:
    compare(tmp_path, *CASES[name])


def test_slice_and_split_give_their_tops(tmp_path: Path) -> None:
    text = (
        head(x=MAP)
        + layer("Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 4 }", top="a b c", name="cut")
        + layer("Split", "", "b", "d e", "twice")
    )
    graph = net(tmp_path, text)
    x = rand(*MAP)
    by_name = dict(zip([output.name for output in graph.outputs], run(graph, x), strict=True))
    assert sorted(by_name) == ["cut:0:a", "cut:2:c", "twice:0:d", "twice:1:e"]
    np.testing.assert_array_equal(by_name["cut:0:a"], x[:, :1])
    np.testing.assert_array_equal(by_name["twice:1:e"], x[:, 1:4])


def test_a_scale_may_come_from_another_layer(tmp_path: Path) -> None:
    graph = net(tmp_path, head(x=MAP, s=(2, 6)) + layer("Scale", "scale_param { axis: 0 }", "x s"))
    x, s = rand(*MAP), rand(2, 6, seed=2)
    np.testing.assert_allclose(run(graph, x, s)[0], x * s[:, :, None, None], rtol=1e-6)


@pytest.mark.parametrize(
    ("param", "wanted"),
    [
        ("", lambda x: x.reshape(2, -1).argmax(1).reshape(2, 1, 1, 1)),
        ("argmax_param { axis: 1 top_k: 2 }", lambda x: np.argsort(-x, 1)[:, :2]),
        ("argmax_param { axis: 1 out_max_val: true }", lambda x: x.max(1, keepdims=True)),
        (
            "argmax_param { out_max_val: true }",
            lambda x: np.stack([x.reshape(2, -1).argmax(1), x.reshape(2, -1).max(1)], 1).reshape(2, 2, 1, 1),
        ),
    ],
)
def test_arg_max_gives_places_or_values_as_caffe(param: str, wanted: Any, tmp_path: Path) -> None:
    x = rand(*MAP)
    np.testing.assert_allclose(run(net(tmp_path, head(x=MAP) + layer("ArgMax", param)), x)[0], wanted(x), rtol=1e-6)


def test_a_net_in_the_old_head_form_with_in_place_layers(tmp_path: Path) -> None:
    text = 'input: "data" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4\n'
    text += (
        layer("Power", "power_param { scale: -1 }", "data", "p", "neg")
        + layer("ReLU", "", "p", "p", "relu")
        + layer("Power", "power_param { shift: 1 }", "p", "p", "plus")
    )
    graph = net(tmp_path, text)
    assert [node.name for node in graph.inputs] == ["data"]
    assert graph.inputs[0].output.format == 0
    assert [node.name for node in graph.nodes] == ["data", "neg", "relu", "plus"]
    assert [output.name for output in graph.outputs] == ["plus:0:p"]
    x = rand(1, 3, 4, 4)
    np.testing.assert_allclose(run(graph, x)[0], np.maximum(-x, 0) + 1, rtol=1e-6)


def test_input_shape_form_and_shapes_from_outside(tmp_path: Path) -> None:
    text = (
        'input: "a" input: "b" input_shape { dim: 1 dim: 3 dim: 4 dim: 4 } input_shape { dim: 2 dim: 5 }\n'
        + layer("ReLU", "", "a")
        + layer("TanH", "", "b", "t")
    )
    files = write(tmp_path, text)
    graph, _ = read(*files, "net", {"a": (2, 3, 8, 8)})
    assert [node.output.shape for node in graph.inputs] == [(2, 3, 8, 8), (2, 5)]
    assert [output.value.shape for output in graph.outputs] == [(2, 3, 8, 8), (2, 5)]


def test_layers_of_training_are_left_out(tmp_path: Path) -> None:
    text = (
        layer("Data", "include { phase: TRAIN } data_param { source: 'a' backend: LMDB }", "", "x label", "data")
        + head(x=(1, 4))
        + layer("Dropout", "exclude { phase: TEST }", "x", "x", "drop")
        + layer("Softmax", "include { phase: TEST }")
        + layer("SoftmaxWithLoss", "", "x label", "loss")
        + layer("Accuracy", "accuracy_param { top_k: 5 }", "x label", "accuracy")
    )
    graph, notes = read(*write(tmp_path, text), "net")
    assert [output.name for output in graph.outputs] == ["y:0:y"]
    assert len(notes) == 4
    assert "'loss' of type SoftmaxWithLoss" in notes[2]


def test_names_of_layers_stay_names_of_nodes(tmp_path: Path) -> None:
    text = (
        head(x=(1, 4))
        + layer("Slice", "", top="a b", name="cut")
        + layer("ReLU", "", "a", "r", "cut_0")
        + layer("InnerProduct", "inner_product_param { num_output: 2 }", "b", "f", "fc")
        + layer("TanH", "", "f", "t", "fc_weight")
    )
    graph = net(tmp_path, text, {"fc": [rand(2, 2), rand(2)]})
    names = {node.name for node in graph.nodes}
    assert {"cut", "cut_0", "fc", "fc_weight"} <= names


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    graph = net(tmp_path, *CASES["convolution"][:2])
    constants = [node.data for node in graph.nodes if node.type == "Const"]
    assert constants and all(isinstance(constant.data, memoryview) for constant in constants if constant is not None)


def test_damaged_files_never_crash(tmp_path: Path) -> None:
    text, blobs, _ = CASES["convolution"]
    good = caffemodel(blobs, {"y": "Convolution"})
    prototxt, path = write(tmp_path, text, blobs)
    generator = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(good[: generator.integers(1, len(good) + 1)])
        for offset in generator.integers(0, len(data), 3):
            data[offset] = generator.integers(0, 256)
        path.write_bytes(data)
        try:
            read(prototxt, path, "net")
        except AtcError as error:
            assert error.code.startswith("E1")
