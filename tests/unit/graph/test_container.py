"""The .om container: what is written is read, what is damaged is refused, nothing half-written stays."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from softnpu.base.errors import NpuError
from softnpu.graph import container
from softnpu.graph.container import MODEL_DEF, MODEL_INOUT_INFO, WEIGHTS_DATA, read, write

DAMAGED = 145006


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.om"
    parts = [
        (MODEL_INOUT_INFO, [b"io"]),
        (MODEL_DEF, [b"abc", b"def"]),
        (WEIGHTS_DATA, [bytes(100), memoryview(b"w")]),
        (2, []),
    ]
    write(path, "resnet", "8.1.RC1", False, parts)
    return path


def test_round_trip(model: Path) -> None:
    header, partitions = read(model.read_bytes())
    assert (header.name, header.platform, header.dynamic, header.wide) == ("resnet", "8.1.RC1", False, True)
    assert {kind: bytes(data) for kind, data in partitions.items()} == {
        8: b"io",
        0: b"abcdef",
        1: bytes(100) + b"w",
        2: b"",
    }
    assert list(model.parent.iterdir()) == [model]


def test_the_header_is_laid_out_as_documented(model: Path) -> None:
    data = model.read_bytes()
    assert data[:4] == b"IMOD" and struct.unpack_from("<I", data, 4) == (256,)
    assert struct.unpack_from("<Q", data, 184) == (len(data) - 256,) and struct.unpack_from("<I", data, 76) == (
        len(data) - 256,
    )
    assert struct.unpack_from("<II", data, 256) == (4, 0)
    assert struct.unpack_from("<IIQQ", data, 264 + 24) == (0, 0, 2, 6)


def test_an_old_file_with_the_narrow_table() -> None:
    body = struct.pack("<I", 2) + struct.pack("<III", 0, 0, 3) + struct.pack("<III", 1, 3, 2) + b"modww"
    head = bytearray(256)
    struct.pack_into("<III", head, 0, 0x444F4D49, 256, 0x10000000)
    struct.pack_into("<I", head, 76, len(body))
    header, partitions = read(bytes(head) + body)
    assert not header.wide and (bytes(partitions[0]), bytes(partitions[1])) == (b"mod", b"ww")


def test_every_cut_is_noticed(model: Path) -> None:
    data = model.read_bytes()
    for length in range(len(data)):
        with pytest.raises(NpuError) as caught:
            read(data[:length])
        assert caught.value.code == DAMAGED


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, b"X"), (4, b"\x01"), (80, b"\x01"), (82, b"\x05"), (256, b"\xff"), (264, b"\x01"), (264 + 16, b"\xff" * 8)],
)
def test_wrong_fields(model: Path, at: int, value: bytes) -> None:
    data = bytearray(model.read_bytes())
    data[at : at + len(value)] = value
    with pytest.raises(NpuError) as caught:
        read(data)
    assert caught.value.code in (DAMAGED, 145000)


def test_random_mutations(model: Path) -> None:
    rng = random.Random(3)
    whole = model.read_bytes()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            read(data)
        except NpuError as error:
            assert error.code in (DAMAGED, 145000)


def test_nothing_stays_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_header", lambda *args: "not bytes")
    with pytest.raises(TypeError):
        write(tmp_path / "m.om", "m", "v", False, [(MODEL_DEF, [b"x"])])
    assert list(tmp_path.iterdir()) == []
