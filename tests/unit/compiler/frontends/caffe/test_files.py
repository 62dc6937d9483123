"""The Caffe frontend: forms of weights, and files that it refuses."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.caffe.reader import read
from softnpu.graph.wire import Message, encode
from tests.caffe_support import run, write
from tests.unit.compiler.frontends.caffe.caffe_nets import MAP, Array, head, layer, rand

_TEXT = head(x=(1, 4)) + layer("InnerProduct", "inner_product_param { num_output: 2 }")
_SHAPE = Message("BlobShape").add(dim=(1, "int64", True))


def weights(blob: Message, *blobs: dict[str, Any]) -> bytes:
    layer_message = Message("Layer").add(name=(1, "string"), type=(2, "string"), blobs=(7, blob, True))
    return encode(
        Message("Net").add(layer=(100, layer_message, True)),
        {"layer": [{"name": "y", "type": "InnerProduct", "blobs": list(blobs)}]},
    )


def unpacked(values: Array) -> bytes:
    return b"".join(b"\x2d" + struct.pack("<f", number) for number in values.reshape(-1))


def forms() -> dict[str, bytes]:
    w, b = rand(2, 4), rand(2)
    dims = {"num": (1, "int32"), "channels": (2, "int32"), "height": (3, "int32"), "width": (4, "int32")}
    old = Message("Blob").add(**dims, data=(5, "bytes"))
    double = Message("Blob").add(shape=(7, _SHAPE), double_data=(8, "bytes"))
    raw = Message("Blob").add(shape=(7, _SHAPE), kind=(10, "enum"), raw=(12, "bytes"))
    loose = Message("Blob").add(shape=(7, _SHAPE))
    body = [encode(loose, {"shape": {"dim": list(array.shape)}}) + unpacked(array) for array in (w, b)]
    holder = Message("Layer").add(name=(1, "string"), blobs=(7, "bytes", True))
    return {
        "four dims": weights(
            old,
            {"num": 1, "channels": 1, "height": 2, "width": 4, "data": w.tobytes()},
            {"num": 1, "channels": 1, "height": 1, "width": 2, "data": b.tobytes()},
        ),
        "doubles": weights(
            double,
            *[{"shape": {"dim": list(array.shape)}, "double_data": array.astype("<f8").tobytes()} for array in (w, b)],
        ),
        "raw half": weights(
            raw,
            *[
                {"shape": {"dim": list(array.shape)}, "kind": 2, "raw": array.astype("<f2").tobytes()}
                for array in (w, b)
            ],
        ),
        "raw float": weights(
            raw, *[{"shape": {"dim": list(array.shape)}, "kind": 1, "raw": array.tobytes()} for array in (w, b)]
        ),
        "not packed": encode(Message("Net").add(layer=(100, holder, True)), {"layer": [{"name": "y", "blobs": body}]}),
    }


@pytest.mark.parametrize("form", ["four dims", "doubles", "raw half", "raw float", "not packed"])
def test_every_form_of_blob_is_read(form: str, tmp_path: Path) -> None:
    prototxt, path = write(tmp_path, _TEXT)
    path.write_bytes(forms()[form])
    graph, _ = read(prototxt, path, "net")
    x = rand(1, 4, seed=5)
    tolerance = 2e-3 if form == "raw half" else 1e-6
    np.testing.assert_allclose(run(graph, x)[0], x @ rand(2, 4).T + rand(2), rtol=tolerance, atol=tolerance)


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(folder: Path, text: str, blobs: dict[str, list[Array]] | None = None) -> AtcError:
    with pytest.raises(AtcError) as caught:
        read(*write(folder, text, blobs), "net")
    return caught.value


def test_the_old_layers_field(tmp_path: Path) -> None:
    error = refused(tmp_path, 'layers { name: "a" type: CONVOLUTION bottom: "x" top: "y" }')
    assert error.code == "E11021"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('name: "a"\nlayer { name "b" }', "line 2, column 14"),
        ('layer {\n  typ: "ReLU"\n}', "line 2, column 3"),
        ('layer { name: "a"', "line 1"),
        ("layer { pooling_param { pool: SUM } }", "line 1, column 31"),
    ],
)
def test_a_bad_prototxt_says_where(text: str, place: str, tmp_path: Path) -> None:
    error = refused(tmp_path, text)
    assert error.code == "E11022"
    assert place in error.message


def test_text_that_is_no_text(tmp_path: Path) -> None:
    prototxt, path = write(tmp_path, _TEXT)
    prototxt.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AtcError) as caught:
        read(prototxt, path, "net")
    assert caught.value.code == "E11022"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xa2\x06\xff",
        b"no caffemodel",
        weights(Message("Blob").add(shape=(7, _SHAPE)), {"shape": {"dim": [-1, 3]}}),
    ],
)
def test_bad_weights_are_refused(data: bytes, tmp_path: Path) -> None:
    prototxt, path = write(tmp_path, _TEXT)
    path.write_bytes(data)
    with pytest.raises(AtcError) as caught:
        read(prototxt, path, "net")
    assert caught.value.code == "E11024"


def test_weights_of_the_old_form(tmp_path: Path) -> None:
    prototxt, path = write(tmp_path, _TEXT)
    path.write_bytes(encode(Message("Net").add(layers=(2, "bytes", True)), {"layers": [b"abc"]}))
    with pytest.raises(AtcError) as caught:
        read(prototxt, path, "net")
    assert caught.value.code == "E11023"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    prototxt, path = write(tmp_path, _TEXT)
    for pair in ((tmp_path / "no.prototxt", path), (prototxt, tmp_path / "no.caffemodel")):
        with pytest.raises(AtcError) as caught:
            read(*pair, "net")
        assert caught.value.code == "E10410"


def test_a_bottom_that_nothing_makes_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, head(x=(1, 4)) + layer("ReLU", "", "who"))
    assert (error.code, "[who]" in error.message) == ("E11012", True)


def test_all_unknown_types_stand_in_one_error(tmp_path: Path) -> None:
    error = refused(tmp_path, head(x=(1, 4)) + layer("Magic", top="a") + layer("ReLU") + layer("Wonder", "", "a", "b"))
    assert error.code == "E11009"
    assert "a (Magic), b (Wonder)" in error.message


@pytest.mark.parametrize(
    "kind", ["Yolo", "YoloV3DetectionOutput", "SReLU", "Correlation", "L2Normalize", "SpatialTransformer"]
)
def test_layers_whose_meaning_is_not_documented_are_refused(kind: str, tmp_path: Path) -> None:
    param = "yolo_param { classes: 2 }" if kind == "Yolo" else ""
    assert refused(tmp_path, head(x=MAP) + layer(kind, param)).code == "E11009"


def test_detection_output_must_be_renamed(tmp_path: Path) -> None:
    text = head(x=(1, 4)) + layer(
        "DetectionOutput",
        "detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.4 } code_type: CENTER_SIZE }",
    )
    error = refused(tmp_path, text)
    assert error.code == "E11008"
    assert "SSDDetectionOutput" in error.solution


@pytest.mark.parametrize("other", ["input_shape { dim: 1 }", head(z=(1, 2))])
def test_two_forms_of_inputs(other: str, tmp_path: Path) -> None:
    text = 'input: "x" input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 2 ' + other + layer("ReLU")
    assert refused(tmp_path, text).code == "E11001"


def test_missing_layer_and_wrong_blobs(tmp_path: Path) -> None:
    assert refused(tmp_path, _TEXT).code == "E11029"
    assert refused(tmp_path, _TEXT, {"y": [rand(2, 5), rand(2)]}).code == "E11033"
    assert refused(tmp_path, _TEXT, {"y": [rand(2, 4)]}).code == "E11033"


@pytest.mark.parametrize(
    "text",
    [
        layer("Pooling", "pooling_param { kernel_size: 3 }", top="y mask"),
        layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 3 }"),
        layer("Pooling", "pooling_param { kernel_size: 30 }"),
        layer("Convolution", "convolution_param { kernel_size: 3 }"),
        layer("Convolution", "convolution_param { num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3 }"),
        layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 group: 4 }"),
        layer("Softmax", "softmax_param { axis: 7 }"),
        layer("Slice", "slice_param { slice_point: 9 }", top="a b"),
        layer("Eltwise", "", "x z"),
        layer("ReLU", "", "x z"),
        layer("ReLU", "", "x", "y y2"),
        layer("ReLU") + layer("TanH", name="again"),
    ],
)
def test_wrong_parameters_are_named(text: str, tmp_path: Path) -> None:
    error = refused(tmp_path, head(x=MAP, z=(1, 2)) + text)
    assert error.code in ("E14001", "E89999")
    assert error.message


def test_an_input_without_shape(tmp_path: Path) -> None:
    assert refused(tmp_path, 'input: "x"' + layer("ReLU")).code == "E10001"
