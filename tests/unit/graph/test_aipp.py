"""AIPP's words: formats, parameters, the parameter block of dynamic AIPP, and what programs see of an input."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softnpu.graph.aipp import (
    FORMATS,
    AippParams,
    block_bytes,
    csc_defaults,
    find,
    first_info,
    input_dims,
    input_dims_v2,
    memory_shape,
    pack,
    unpack,
    widest,
)
from softnpu.graph.ir import Graph, Node, Value

PARAMS = AippParams(
    1, csc=True, rbuv_swap=True, src_w=256, src_h=224, crop=True, crop_start_w=2, crop_start_h=4, crop_w=200, crop_h=100,
    padding=True, left=1, right=2, top=3, bottom=4, padding_value=0.3, matrix=(298, 516, 0, 298, -100, -208, 298, 0, 409),
    input_bias=(16, 128, 128), output_bias=(1, 2, 3), mean=(104, 117, 123, 5), min=(0.1, 0.2, 0.3, 0.4), var_reci=(0.01, -2.0, 3.0, 65504.0),
)  # fmt: skip
# name: (aclAippInputFormat, number in the block, bytes per pixel, get_input_dims, get_input_dims_v2 of 2 pictures 224 x 192)
ROWS = {
    "YUV420SP_U8": (1, 1, 1.5, [2, 224, 192, 3], [2, 336, 192, 1]),
    "XRGB8888_U8": (2, 2, 4, [2, 224, 192, 4], [2, 224, 192, 4]),
    "RGB888_U8": (3, 5, 3, [2, 224, 192, 3], [2, 224, 192, 3]),
    "YUV400_U8": (4, 10, 1, [2, 224, 192, 1], [2, 224, 192, 1]),
    "ARGB8888_U8": (7, 6, 4, [2, 224, 192, 4], [2, 224, 192, 4]),
    "YUYV_U8": (8, 7, 2, [2, 224, 192, 3], [2, 224, 192, 2]),
    "YUV422SP_U8": (9, 8, 2, [2, 224, 192, 3], [2, 448, 192, 1]),
    "AYUV444_U8": (10, 9, 4, [2, 224, 192, 4], [2, 224, 192, 4]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_format_has_the_numbers_and_sizes_of_the_manual(name: str) -> None:
    code, block, pixel, dims, dims_v2 = ROWS[name]
    row = FORMATS[code]
    assert (row.name, row.block) == (name, block)
    assert row.source_bytes(2, 224, 192) == 2 * 224 * 192 * pixel == np.prod(dims_v2)
    assert input_dims(code, 2, 224, 192) == dims
    assert input_dims_v2(code, 2, 224, 192) == dims_v2
    assert row.source_height(dims_v2[1]) == 224
    assert len(FORMATS) == len(ROWS)


def test_unknown_sizes_stay_unknown() -> None:
    assert input_dims_v2(1, -1, -1, -1) == [-1, -1, -1, 1]
    assert FORMATS[1].source_height(-1) == -1


def test_defaults_of_colour_conversion() -> None:
    assert csc_defaults(9) == ((298, 516, 0, 298, -100, -208, 298, 0, 409), (16, 128, 128), (0, 0, 0))
    assert csc_defaults(7) == ((66, 129, 25, -38, -74, 112, 112, -94, -18), (0, 0, 0), (16, 128, 128))


def test_min_and_factor_are_float16() -> None:
    assert PARAMS.min == tuple(float(np.float16(value)) for value in (0.1, 0.2, 0.3, 0.4))
    assert PARAMS.var_reci[0] == float(np.float16(0.01)) != 0.01
    assert PARAMS.padding_value == float(np.float32(0.3))


def test_json_there_and_back() -> None:
    content = json.loads(json.dumps(PARAMS.to_json()))
    assert AippParams.from_json(content) == PARAMS
    assert (
        content["inputFormat"],
        content["cscSwitch"],
        content["loadStartPosH"],
        content["matrixR1C2"],
        content["meanChn3"],
    ) == (1, 1, 4, -208, 5)
    assert content["varReciChn1"] == -2.0 and content["bottomPaddingSize"] == 4 and content["resizeSwitch"] == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inputFormat", 5),
        ("inputFormat", "x"),
        ("matrixR0C0", 40000),
        ("srcImageSizeW", -1),
        ("srcImageSizeW", 1 << 70),
        ("varReciChn0", float("nan")),
        ("cropSizeW", 255),
        ("topPaddingSize", 33),
        ("minChn0", None),
    ],
)
def test_damaged_json(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"damaged|invalid literal"):
        AippParams.from_json({**PARAMS.to_json(), key: value})
    with pytest.raises(ValueError, match="damaged"):
        AippParams.from_json({k: v for k, v in PARAMS.to_json().items() if k != key})


def test_the_output_size_follows_crop_and_padding() -> None:
    assert PARAMS.output_size() == (100 + 7, 200 + 3)
    assert replace(PARAMS, crop=False, padding=False).output_size() == (224, 256)
    open_size = AippParams(1)
    assert open_size.output_size(10, 20) == (10, 20)
    assert open_size.output_size(-1, -1) == (-1, -1)
    assert open_size.resolved(10, 20).src_h == 10
    assert open_size.resolved(-1, -1) == open_size
    assert replace(PARAMS, crop_w=0, crop_h=0).resolved(10, 20).crop_w == 20
    assert (widest("310P"), widest("910"), widest("910B"), widest("")) == (1080, 1080, 4096, 4096)


def test_the_block_byte_by_byte() -> None:
    second = replace(PARAMS, crop=False, padding=False, mean=(1, 2, 3, 4))
    data = pack([PARAMS, second])
    assert len(data) == block_bytes(2) == 64 + 96 * 2
    assert list(data[:5]) == [1, 1, 1, 0, 2]
    assert struct.unpack_from("<2i", data, 8) == (256, 224)
    assert struct.unpack_from("<9h", data, 16) == PARAMS.matrix
    assert list(data[40:46]) == [1, 2, 3, 16, 128, 128]
    assert list(data[64:68]) == [1, 0, 1, 0]
    assert struct.unpack_from("<4i", data, 64 + 8) == (2, 4, 200, 100)
    assert struct.unpack_from("<4i", data, 64 + 40) == (3, 4, 1, 2)
    assert struct.unpack_from("<4h", data, 64 + 56) == (104, 117, 123, 5)
    assert np.array_equal(np.frombuffer(data, "<f2", 4, 64 + 64), np.array([0.1, 0.2, 0.3, 0.4], np.float16))
    assert np.array_equal(np.frombuffer(data, "<f2", 4, 64 + 72), np.array([0.01, -2, 3, 65504], np.float16))
    assert struct.unpack_from("<4h", data, 160 + 56) == (1, 2, 3, 4)
    assert pack([AippParams(3)])[0] == 5 and pack([AippParams(4)])[0] == 10  # numbered otherwise than in ACL


def test_the_block_there_and_back() -> None:
    plain = replace(PARAMS, padding_value=0.0)  # dynamic AIPP pads zeros
    assert unpack(pack([plain, replace(plain, crop=False)])) == [plain, replace(plain, crop=False)]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: data[:40], "at least 64 bytes"),
        (lambda data: data[:100], "claims 1 pictures in 100 bytes"),
        (lambda data: bytes(160), "format 0"),
        (lambda data: data[:4] + b"\xff" + data[5:], "claims -1"),
        (lambda data: data[:65] + b"\x01" + data[66:], "scaling"),
        (lambda data: data[:72] + struct.pack("<i", 1 << 30) + data[76:], "load_start_pos"),
        (lambda data: data[:8] + bytes(8) + data[16:], "source size is missing"),
    ],
)
def test_a_damaged_block(change: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        unpack(change(pack([PARAMS])))


def static_graph() -> Graph:
    graph = Graph("g")
    data = graph.data_node("x", 4, (1, 336, 256, 1), 1)
    data.attrs |= {"aipp_format": 1, "aipp_dims": [1, 224, 256, 3]}
    attrs = {"aipp": PARAMS.to_json(), "model_dtype": 0, "model_format": 0, "model_shape": [1, 3, 107, 203]}
    graph.add(Node("x_0_aipp", "Aipp", [data.output], [Value("x_0_aipp", 0, (1, 3, 107, 203))], attrs))
    return graph


def test_what_a_program_is_told() -> None:
    (entry,) = find(static_graph())
    assert entry.static and entry.data.name == "x" and entry.params == PARAMS
    info = first_info(entry, [(1, 224, 256), (4, 224, 256)])
    assert (info["srcFormat"], info["srcDatatype"], info["srcDimNum"], info["shapeCount"]) == (0, 0, 4, 2)
    last = info["outDims"][1]
    assert last["srcDims"] == {"name": "x", "dimCount": 4, "dims": [4, 224, 256, 3]}
    assert (last["srcSize"], last["aippOutdims"]["dims"], last["aippOutSize"]) == (
        4 * 224 * 256 * 3 // 2,
        [4, 3, 107, 203],
        4 * 3 * 107 * 203 * 4,
    )


def test_the_shape_of_a_gear_in_memory() -> None:
    graph = Graph("g")
    data = graph.data_node("x", 4, (2, -1, -1, 1), 1)
    data.attrs["aipp_format"] = 1
    assert memory_shape(data, (2, 224, 192, 1)) == (2, 336, 192, 1)
    plain = graph.data_node("y", 0, (2, -1, -1, 1))
    assert memory_shape(plain, (2, 224, 192, 1)) == (2, 224, 192, 1)
