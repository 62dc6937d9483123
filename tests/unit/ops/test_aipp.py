"""Aipp: every format and switch against formulas written pixel by pixel, and the ONNX form against NumPy, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softnpu import ops
from softnpu.base.aipp import FORMATS, AippParams, csc_defaults
from softnpu.base.aipp_block import pack
from softnpu.compiler.lowering.infer import encode_model
from softnpu.compiler.lowering.lower import Lowered, lower_node
from softnpu.graph.ir import Graph, Node, Value
from softnpu.graph.onnx_def import make_tensor, make_value_info

Array = np.ndarray[Any, Any]
FLOAT, HALF, UINT8 = 0, 1, 4
NCHW, NHWC = 0, 1
OPSETS = (8, 11, 13, 17, 20)
H, W = 6, 8
NAMES = {row.code: row.name for row in FORMATS.values()}
NUMPY = {FLOAT: np.float32, HALF: np.float16, UINT8: np.uint8}


# ---- the formulas, one pixel at a time -------------------------------------------------------------------------------


def pixel(name: str, data: list[int], h: int, w: int, y: int, x: int) -> list[int]:
    """The channels of one pixel, read from the bytes as the manual lays them out."""
    if name == "RGB888_U8":
        return data[(y * w + x) * 3 :][:3]
    if name in ("XRGB8888_U8", "ARGB8888_U8", "AYUV444_U8"):
        return data[(y * w + x) * 4 :][:4]
    if name == "YUV400_U8":
        return [data[y * w + x]]
    if name == "YUV420SP_U8":
        chroma = h * w + (y // 2) * w + (x // 2) * 2
        return [data[y * w + x], data[chroma], data[chroma + 1]]
    if name == "YUV422SP_U8":
        chroma = h * w + y * w + (x // 2) * 2
        return [data[y * w + x], data[chroma], data[chroma + 1]]
    assert name == "YUYV_U8"
    pair = (y * w + x // 2 * 2) * 2
    return [data[pair + (0 if x % 2 == 0 else 2)], data[pair + 1], data[pair + 3]]


def expected(p: AippParams, picture: Array, h: int, w: int, channels: int, dtype: int) -> Array:
    """One picture as the model takes it, [C, H, W]."""
    name, data = NAMES[p.input_format], [int(value) for value in picture.reshape(-1)]
    yuv = "YUV" in name or "YUYV" in name
    top, left, rows, columns = (p.crop_start_h, p.crop_start_w, p.crop_h, p.crop_w) if p.crop else (0, 0, h, w)
    pads = (p.top, p.bottom, p.left, p.right) if p.padding else (0, 0, 0, 0)
    out = np.full((channels, rows + pads[0] + pads[1], columns + pads[2] + pads[3]), p.padding_value, NUMPY[dtype])
    for y, x in itertools.product(range(rows), range(columns)):
        c = pixel(name, data, h, w, top + y, left + x)
        if p.ax_swap and len(c) == 4:
            c = [c[1], c[2], c[3], c[0]]
        if p.rbuv_swap and len(c) > 1:
            if yuv:
                c[1], c[2] = c[2], c[1]
            else:
                c[0], c[2] = c[2], c[0]
        if p.csc:
            m = p.matrix
            if yuv:
                d = [c[i] - p.input_bias[i] for i in range(3)]
                c = [(m[3 * i] * d[0] + m[3 * i + 1] * d[1] + m[3 * i + 2] * d[2]) >> 8 for i in range(3)]
            else:
                c = [
                    ((m[3 * i] * c[0] + m[3 * i + 1] * c[1] + m[3 * i + 2] * c[2]) >> 8) + p.output_bias[i]
                    for i in range(3)
                ]
            c = [min(max(value, 0), 255) for value in c]
        for i in range(channels):
            if dtype == UINT8:
                value: Any = c[i]
            else:
                low, factor = np.float32(np.float16(p.min[i])), np.float32(np.float16(p.var_reci[i]))
                value = (np.float32(c[i]) - np.float32(p.mean[i]) - low) * factor
            out[i, pads[0] + y, pads[2] + x] = value
    return out


# ---- cases -----------------------------------------------------------------------------------------------------------

NORMAL = {"mean": (104, 117, 123, 7), "var_reci": (0.0170, 0.0175, -0.0174, 2.0)}
AWKWARD = {"mean": (104, 0, 255, 1), "min": (0.1, 0.0007, 254.9, 3.0), "var_reci": (0.00392, 1.0, 65504.0, -0.5)}
WHOLE = {"mean": (100, 20, 0, 0), "min": (2.0, 0.0, 5.0, 1.0), "var_reci": (0.5, 0.25, 3.0, 1.0)}
SAME = {"mean": (128,) * 4, "var_reci": (0.0078125,) * 4}
CROP = {"crop": True, "crop_start_w": 2, "crop_start_h": 2, "crop_w": 4, "crop_h": 4}
ODD_CROP = {"crop": True, "crop_start_w": 1, "crop_start_h": 3, "crop_w": 5, "crop_h": 3}
PAD = {"padding": True, "left": 1, "right": 3, "top": 2, "bottom": 0, "padding_value": 17.0}


def settings(code: int) -> Iterator[AippParams]:
    """Every switch of a format, alone and together with the others."""
    matrix, input_bias, output_bias = csc_defaults(code)
    csc = {"csc": True, "matrix": matrix, "input_bias": input_bias, "output_bias": output_bias}
    large = {**csc, "matrix": (32767, -32768, 32767, 30000, 257, -1, -32768, 20000, 12345)}
    base = AippParams(code, src_w=W, src_h=H)
    swaps = [{"rbuv_swap": a, "ax_swap": b} for a, b in itertools.product((False, True), repeat=2)]
    for swap, colour in itertools.product(swaps, ({}, csc, large) if code != 4 else ({},)):
        yield replace(base, **swap, **colour)  # type: ignore[arg-type]
    colours: tuple[dict[str, Any], ...] = ({}, csc) if code != 4 else ({},)
    for colour, numbers in itertools.product(colours, (NORMAL, AWKWARD, WHOLE, SAME)):
        yield replace(base, **colour, **numbers)  # type: ignore[arg-type]
    for colour, crop in itertools.product(colours, (CROP, ODD_CROP)):
        yield replace(base, **colour, **NORMAL, **crop, **PAD, rbuv_swap=True)  # type: ignore[arg-type]
    yield replace(base, src_w=0, src_h=0, **colours[-1], **NORMAL)


def pictures(p: AippParams, n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, p.format.memory_dims(n, H, W), np.uint8)


def site(p: AippParams, shape: tuple[int, ...], channels: int, dtype: int, layout: int) -> ops.Site:
    model = [1, channels, H, W] if layout == NCHW else [1, H, W, channels]
    attrs = {"aipp": p.to_json(), "model_dtype": dtype, "model_format": layout, "model_shape": model}
    return ops.Site("Aipp", "pre", attrs, ["images"], [UINT8], [shape], [None])


def session(p: AippParams, shape: tuple[int, ...], channels: int, dtype: int, layout: int, opset: int) -> Any:
    """The lowered node in onnxruntime."""
    import onnxruntime

    graph = Graph("g", {"": opset})
    described = site(p, shape, channels, dtype, layout)
    images, features = Value("images", UINT8, shape), Value("features", dtype)
    into = Lowered()
    lower_node(Node("pre", "Aipp", [images], [features], described.attrs), opset, graph.unique, into)
    constants = [make_tensor(name, array) for name, array in into.constants.items()]
    nodes = [{**node, "name": f"{index}"} for index, node in enumerate(into.nodes)]
    model = encode_model(
        graph,
        nodes,
        [make_value_info("images", UINT8, shape)],
        [make_value_info("features", dtype, None)],
        constants,
        into.domains,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def compute(p: AippParams, images: Array, channels: int, dtype: int, layout: int) -> Array:
    operator = ops.find("Aipp")
    assert operator is not None and operator.compute is not None
    return operator.compute(site(p, images.shape, channels, dtype, layout), images)[0]


def same_bits(left: Array, other: Array) -> bool:
    return left.dtype == other.dtype and left.shape == other.shape and left.tobytes() == other.tobytes()


# ---- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", FORMATS, ids=NAMES.get)
@pytest.mark.parametrize("dtype", [FLOAT, HALF, UINT8])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # a factor of 65504 is beyond float16
def test_numpy_against_the_formulas(code: int, dtype: int) -> None:
    for p in settings(code):
        images = pictures(p, 2)
        wanted = np.stack([expected(p, image, H, W, p.channels, dtype) for image in images])
        assert same_bits(compute(p, images, p.channels, dtype, NCHW), wanted), p
        assert same_bits(
            compute(p, images, p.channels, dtype, NHWC), np.ascontiguousarray(wanted.transpose(0, 2, 3, 1))
        ), p


@pytest.mark.parametrize("code", FORMATS, ids=NAMES.get)
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_onnx_gives_the_bits_of_numpy(code: int, opset: int) -> None:
    for p in settings(code):
        images = pictures(p, 2, seed=1)
        dynamic = (-1, -1, -1, images.shape[3]) if not p.src_w else images.shape
        for dtype, layout in ((FLOAT, NCHW), (FLOAT, NHWC), (HALF, NCHW), (UINT8, NCHW), (UINT8, NHWC)):
            actual = session(p, dynamic, p.channels, dtype, layout, opset).run(None, {"images": images})[0]
            assert same_bits(actual, compute(p, images, p.channels, dtype, layout)), (p, dtype, layout)


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_model_with_one_channel_takes_grey(code: int) -> None:
    row = (256, 0, 0) if code == 1 else (76, 150, 30)
    p = AippParams(code, csc=True, src_w=W, src_h=H, matrix=(*row, 0, 0, 0, 0, 0, 0), mean=(3, 0, 0, 0))
    images = pictures(p, 1)
    wanted = expected(p, images[0], H, W, 3, FLOAT)[None, :1]
    assert p.grey
    assert same_bits(compute(p, images, 1, FLOAT, NCHW), wanted)
    assert same_bits(session(p, images.shape, 1, FLOAT, NCHW, 13).run(None, {"images": images})[0], wanted)


@pytest.mark.parametrize(
    "matrix", [(298, 0, 409, 298, -100, -208, 298, 516, 0), (256, 454, 0, 256, -88, -183, 256, 0, 359)]
)
def test_every_value_of_luma_and_chroma(matrix: tuple[int, ...]) -> None:
    """A picture that holds all pairs of luma and one chroma: floor and clamp are right at every value."""
    y, u = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8), indexing="ij")
    images = np.stack([y, u, u[::-1]], axis=-1)
    p = AippParams(10, csc=True, ax_swap=True, src_w=256, src_h=256, matrix=matrix, input_bias=(16, 128, 128))
    packed = np.concatenate([np.zeros_like(y)[..., None], images], axis=-1)[None]
    whole = images.astype(np.int64) - np.array([16, 128, 128])
    wanted = (
        np.clip((whole @ np.array(matrix).reshape(3, 3).T) >> 8, 0, 255).astype(np.float32).transpose(2, 0, 1)[None]
    )
    assert np.array_equal(compute(p, packed, 3, FLOAT, NCHW), wanted)
    assert np.array_equal(session(p, packed.shape, 3, FLOAT, NCHW, 17).run(None, {"images": packed})[0], wanted)


def test_shapes_are_inferred() -> None:
    operator = ops.find("Aipp")
    assert operator is not None and operator.infer is not None
    p = replace(AippParams(1, src_w=W, src_h=H), **CROP, **PAD)  # type: ignore[arg-type]
    assert operator.infer(site(p, (-1, 9, W, 1), 3, FLOAT, NCHW)) == [(FLOAT, (-1, 3, 6, 8))]
    open_size = AippParams(1)
    assert operator.infer(site(open_size, (2, 9, W, 1), 3, HALF, NHWC)) == [(HALF, (2, 6, 8, 3))]
    assert operator.infer(site(open_size, (2, -1, -1, 1), 3, FLOAT, NCHW)) == [(FLOAT, (2, 3, -1, -1))]


def test_damaged_parameters_are_named() -> None:
    operator = ops.find("Aipp")
    assert operator is not None and operator.lower is not None
    wrong = site(AippParams(3), (1, H, W, 3), 3, FLOAT, NCHW)
    wrong.attrs["aipp"]["leftPaddingSize"] = 1 << 40
    with pytest.raises(ops.OpError, match="padding_size"):
        operator.lower(ops.Builder(13), wrong)


def dynamic_site(channels: int, dtype: int = FLOAT, layout: int = NCHW) -> ops.Site:
    attrs = {"model_dtype": dtype, "model_format": layout, "model_shape": [2, channels, 4, 4]}
    return ops.Site(
        "AippDynamic", "pre", attrs, ["images", "params"], [UINT8, UINT8], [(2, -1, -1, -1), (256,)], [None, None]
    )


def test_dynamic_pictures_have_their_own_parameters() -> None:
    operator = ops.find("AippDynamic")
    assert operator is not None and operator.compute is not None and operator.lower is None
    matrix, bias, _ = csc_defaults(1)
    first = AippParams(1, csc=True, matrix=matrix, input_bias=bias, src_w=W, src_h=H, **CROP, **NORMAL)  # type: ignore[arg-type]
    second = replace(first, crop_start_w=4, crop_start_h=0, mean=(1, 2, 3, 4), min=(0.5, 0.0, 0.0, 0.0))
    images = pictures(first, 2)
    block = np.frombuffer(pack([first, second]), np.uint8)
    actual = operator.compute(dynamic_site(3), np.concatenate([images.reshape(-1), np.zeros(9, np.uint8)]), block)[0]
    wanted = np.stack([expected(p, image, H, W, 3, FLOAT) for p, image in zip((first, second), images, strict=True)])
    assert same_bits(actual, wanted)
    together = operator.compute(dynamic_site(3), images, np.frombuffer(pack([first, first]), np.uint8))[0]
    assert same_bits(together[:1], wanted[:1])


@pytest.mark.parametrize(
    ("pixels", "block", "channels", "word"),
    [
        (np.zeros(10, np.uint8), pack([AippParams(3, src_w=4, src_h=4)]), 3, "48 bytes"),
        (np.zeros(64, np.uint8), pack([AippParams(2, src_w=4, src_h=4)]), 3, "4 channels"),
        (np.zeros(64, np.uint8), bytes(160), 3, "set_input_aipp"),
        (
            np.zeros(96, np.uint8),
            pack([AippParams(3, src_w=4, src_h=4, padding=padded, top=1) for padded in (True, False)]),
            3,
            "different sizes",
        ),
    ],
)
def test_dynamic_misuse(pixels: Array, block: bytes, channels: int, word: str) -> None:
    operator = ops.find("AippDynamic")
    assert operator is not None and operator.compute is not None
    with pytest.raises(ops.OpError, match=word):
        operator.compute(dynamic_site(channels), pixels, np.frombuffer(block, np.uint8))
