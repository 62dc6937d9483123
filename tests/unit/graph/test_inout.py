"""The description of inputs and outputs: its bytes by hand, its round trip, and descriptions that are cut or wrong."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from softnpu.base.errors import NpuError
from softnpu.graph.inout import Cursor, ModelInfo, TensorInfo, inout_bytes, read_descriptions

DAMAGED = 145006


def tensors() -> list[TensorInfo]:
    return [
        TensorInfo("x", 0, 0, [1, 3, -1, -1], 768, [1, 4, 4, 3], [(1, 1), (3, 3), (2, 8), (2, -1)]),
        TensorInfo("ünïcode" * 30, 9, 2, [], 8),
        TensorInfo("", 4, 1, [0, 5], 0),
    ]


def records(data: bytes) -> dict[int, bytes]:
    by_kind, at = {}, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        by_kind[kind] = data[at + 8 : at + 8 + length]
        at += 8 + length
    assert at == len(data)
    return by_kind


def test_round_trip() -> None:
    data = records(inout_bytes(ModelInfo(tensors(), [])))[0]
    read = read_descriptions(memoryview(data))
    for tensor, wanted in zip(read, tensors(), strict=True):
        for field in ("name", "dtype", "format", "dims", "size", "dims_v2", "ranges"):
            assert getattr(tensor, field) == getattr(wanted, field)


def test_the_layout_of_a_description() -> None:
    data = records(inout_bytes(ModelInfo([TensorInfo("ab", 1, 2, [5, 6], 60, [7], [(1, 2)])], [])))[0]
    assert struct.unpack_from("<I", data) == (1,)
    assert struct.unpack_from("<QiiIIII", data, 4) == (60, 2, 1, 2, 16, 8, 16)
    assert data[36:38] == b"ab"
    assert struct.unpack_from("<5q", data, 38) == (5, 6, 7, 1, 2)
    assert len(data) == 78


@pytest.mark.parametrize(
    ("kind", "gears", "number", "wanted"),
    [
        ("batch", [[1], [8]], 2, struct.pack("<I2Q", 2, 1, 8)),
        ("hw", [[4, 6], [8, 8]], 3, struct.pack("<I2I4Q", 2, 2, 2, 4, 6, 8, 8)),
        ("dims", [[1, 2, 3], [4, 5, 6]], 4, struct.pack("<I2I6Q", 2, 3, 3, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_gears_are_written_as_their_bytes(kind: str, gears: list[list[int]], number: int, wanted: bytes) -> None:
    by_kind = records(inout_bytes(ModelInfo([], [], gears=gears, gear_kind=kind)))
    assert by_kind[number] == wanted
    assert set(by_kind) == {0, 1, number}


def test_output_shapes_of_gears() -> None:
    by_kind = records(inout_bytes(ModelInfo([], [], gear_outputs=[[[1, 2]], [[3]]])))
    assert struct.unpack_from("<III", by_kind[5]) == (2, 7, 5)
    assert by_kind[5][12:] == b"[[1,2]][[3]]"


def test_every_cut_is_noticed() -> None:
    data = records(inout_bytes(ModelInfo(tensors(), [])))[0]
    for length in range(len(data)):
        with pytest.raises(NpuError) as caught:
            read_descriptions(memoryview(data[:length]))
        assert caught.value.code == DAMAGED


@pytest.mark.parametrize(
    "values",
    [
        {"count": 1 << 31},
        {"name": 1 << 30},
        {"dims": 7},
        {"dims": 1 << 31},
        {"pairs": 1 << 31},
        {"first": -3},
        {"first": -(1 << 60)},
    ],
    ids=str,
)
def test_impossible_numbers(values: dict[str, int]) -> None:
    head = struct.pack("<I", values.get("count", 1))
    head += struct.pack("<QiiIIII", 4, 2, 0, values.get("name", 1), values.get("dims", 8), 0, values.get("pairs", 0))
    data = head + b"x" + struct.pack("<q", values.get("first", 1))
    with pytest.raises(NpuError) as caught:
        read_descriptions(memoryview(data))
    assert caught.value.code == DAMAGED


def test_a_cursor_never_goes_past_the_end() -> None:
    cursor: Any = Cursor(memoryview(b"\1\0\0\0abc"))
    assert cursor.take("I") == (1,)
    for call in (lambda: cursor.take("I"), lambda: cursor.bytes(4), lambda: cursor.numbers(8)):
        with pytest.raises(NpuError):
            call()
    assert bytes(cursor.bytes(3)) == b"abc" and cursor.at == 7
    assert cursor.numbers(0) == []
