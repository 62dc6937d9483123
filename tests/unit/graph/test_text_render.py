"""Rendering messages as text: Google's parser reads the same message, and ours reads its own text back."""

from __future__ import annotations

import math
import random
from typing import Any

import onnx
import pytest
from google.protobuf import struct_pb2, text_format
from onnx import TensorProto, helper

from softnpu.graph.onnx_def import MODEL, TENSOR
from softnpu.graph.text import parse, render
from softnpu.graph.wire import Message, decode
from tests.unit.graph.test_wire import OUTER, SAMPLE, peer, plain

VALUE = Message("Value").add(number_value=(2, "double"), string_value=(3, "string"), bool_value=(4, "bool"))
STRUCT = Message("Struct").add(fields=(1, "map", VALUE))


def without_map(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != "q"}


def test_google_reads_what_we_print() -> None:
    text = render(OUTER, SAMPLE)
    message = text_format.Parse(text, peer(OUTER)())
    assert plain(decode(OUTER, message.SerializeToString())) == SAMPLE


def test_we_read_what_we_print() -> None:
    wanted = without_map(SAMPLE)
    assert parse(OUTER, render(OUTER, wanted)) == wanted


def test_an_empty_message() -> None:
    assert render(OUTER, {}) == ""
    assert parse(OUTER, "") == {}


def test_a_model_of_onnx() -> None:
    """Every field that a small model has, printed by us and read by onnx's own classes."""
    graph = helper.make_graph(
        [
            helper.make_node("LeakyRelu", ["x"], ["y"], "n", alpha=0.1),
            helper.make_node("Foo", ["y"], ["z"], axes=[1, -2], w='é"\\'),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], bytes(range(12)), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    data = model.SerializeToString()
    text = render(MODEL, decode(MODEL, memoryview(data)))
    assert text_format.Parse(text, onnx.ModelProto()) == onnx.ModelProto.FromString(data)
    assert plain(parse(MODEL, text)) == plain(decode(MODEL, memoryview(data)))


@pytest.mark.parametrize("data", [bytes(range(256)), b'"\\\n\t\0', b"", "Straße 北京".encode()])
def test_bytes_and_strings(data: bytes) -> None:
    text = render(TENSOR, {"raw_data": data})
    assert text_format.Parse(text, TensorProto()).raw_data == data
    assert parse(TENSOR, text) == {"raw_data": data}
    assert text.isascii() and text.count("\n") == 1


@pytest.mark.parametrize("name", ["", "a b", "Straße", "北京", 'say "no"\\', "\x07\x7f"])
def test_names_of_any_kind_come_back(name: str) -> None:
    text = render(TENSOR, {"name": name})
    assert text_format.Parse(text, TensorProto()).name == name
    assert parse(TENSOR, text) == {"name": name}


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 1e-40, 3.4e38, math.inf, -math.inf, math.nan, 1e300, 5e-324])
def test_doubles_come_back(value: float) -> None:
    text = render(TENSOR, {"double_data": [value]})
    for parsed in (text_format.Parse(text, TensorProto()).double_data[0], parse(TENSOR, text)["double_data"][0]):
        assert (
            math.isnan(parsed)
            if math.isnan(value)
            else (parsed, math.copysign(1, parsed)) == (value, math.copysign(1, value))
        )


@pytest.mark.parametrize("value", [0, 1, -1, (1 << 63) - 1, -(1 << 63)])
def test_integers_come_back(value: int) -> None:
    text = render(TENSOR, {"int64_data": [value]})
    assert list(text_format.Parse(text, TensorProto()).int64_data) == [value]
    assert parse(TENSOR, text) == {"int64_data": [value]}


def test_maps_are_read_by_google() -> None:
    rows = {"one": {"number_value": 1.5}, 'two "x"': {"string_value": "z"}, "é": {"bool_value": True}}
    parsed = text_format.Parse(render(STRUCT, {"fields": rows}), struct_pb2.Struct())
    assert dict(parsed.items()) == {"one": 1.5, 'two "x"': "z", "é": True}


def test_maps_are_read_by_us() -> None:
    rows = {"one": {"number_value": 1.5}, "two": {"string_value": "z"}}
    assert parse(STRUCT, render(STRUCT, {"fields": rows})) == {"fields": rows}


@pytest.mark.parametrize("seed", range(20))
def test_random_tensors(seed: int) -> None:
    source = random.Random(seed)
    message = {
        "dims": [source.randrange(-(1 << 63), 1 << 63) for _ in range(source.randrange(4))],
        "data_type": source.randrange(1 << 31),
        "raw_data": source.randbytes(source.randrange(40)),
        "name": "".join(chr(source.choice([65, 34, 92, 10, 228, 0x4E2D])) for _ in range(6)),
        "string_data": [source.randbytes(3) for _ in range(source.randrange(3))],
        "external_data": [{"key": "k", "value": str(source.random())} for _ in range(source.randrange(3))],
    }
    message = {key: value for key, value in message.items() if value != []}
    text = render(TENSOR, message)
    assert parse(TENSOR, text) == message
    parsed = text_format.Parse(text, TensorProto())
    assert plain(decode(TENSOR, memoryview(parsed.SerializeToString()))) == message
