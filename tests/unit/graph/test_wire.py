"""The wire codec against Google's own protobuf library, and against bytes that mean harm."""

from __future__ import annotations

import random

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from softnpu.graph import wire
from softnpu.graph.model_def import MODEL
from softnpu.graph.wire import Message, WireError, decode, encode

KINDS = {
    "int32": 5,
    "int64": 3,
    "uint32": 13,
    "uint64": 4,
    "bool": 8,
    "float": 2,
    "double": 1,
    "string": 9,
    "bytes": 12,
    "enum": 3,
}
INNER = Message("Inner").add(x=(1, "int64"), names=(2, "string", True))
OUTER = Message("Outer").add(
    a=(1, "int32"), b=(2, "int64"), c=(3, "uint32"), d=(4, "uint64"), e=(5, "bool"), f=(6, "float"), g=(7, "double"),
    h=(8, "string"), i=(9, "bytes"), j=(10, "int64", True), k=(11, "float", True), l=(12, "double", True), m=(13, "string", True),
    n=(14, "bytes", True), o=(15, INNER), p=(16, INNER, True), q=(17, "map", INNER), r=(1000, "bool", True), s=(536870911, "int32"),
)  # fmt: skip


def peer(table: Message, seen: dict[str, str] | None = None):
    """The same message made by Google's library from the same numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="peer.proto", syntax="proto2", package="peer")
    tables = [table]
    for described_table in tables:
        described = file.message_type.add(name=described_table.name.replace(" ", ""))
        for field in described_table.fields.values():
            added = described.field.add(name=field.name, number=field.number, label=3 if field.repeated else 1)
            if field.kind == "map":
                entry = described.nested_type.add(name=f"{field.name.capitalize()}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=9)
                entry.field.add(name="value", number=2, label=1, type=11, type_name=f".peer.{field.message.name}")
                added.type, added.type_name = 11, f".peer.{described_table.name}.{entry.name}"
            elif field.kind == "message":
                added.type, added.type_name = 11, f".peer.{field.message.name}"
            else:
                added.type = KINDS[field.kind]
                if field.repeated and field.kind not in ("string", "bytes"):
                    added.options.packed = True
            if field.message is not None and field.message not in tables:
                tables.append(field.message)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"peer.{table.name}"))


def plain(value):
    """Views as bytes, so that dictionaries compare."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


SAMPLE = {
    "a": -5, "b": -(2**63), "c": 2**32 - 1, "d": 2**64 - 1, "e": True, "f": 0.5, "g": -1e300, "h": "名字 ü", "i": b"\x00\xff",
    "j": [0, -1, 2**62], "k": [1.5, -2.0], "l": [3.25], "m": ["", "x"], "n": [b"", b"abc"], "o": {"x": 7, "names": ["a"]},
    "p": [{"x": 1}, {}, {"names": ["q", "r"]}], "q": {"k1": {"x": 4}, "": {}}, "r": [True, False], "s": 9,
}  # fmt: skip


def fill(message, value) -> None:
    for name, content in value.items():
        target = getattr(message, name)
        if isinstance(content, dict) and hasattr(target, "MergeFrom") and not hasattr(target, "DESCRIPTOR"):
            for key, item in content.items():
                fill(target[key], item)
        elif isinstance(content, dict):
            target.SetInParent()
            fill(target, content)
        elif isinstance(content, list) and content and isinstance(content[0], dict):
            for item in content:
                fill(target.add(), item)
        elif isinstance(content, list):
            target.extend(content)
        else:
            setattr(message, name, content)


def test_reads_what_google_writes() -> None:
    message = peer(OUTER)()
    fill(message, SAMPLE)
    assert plain(decode(OUTER, message.SerializeToString())) == SAMPLE


def test_google_reads_what_we_write() -> None:
    kind = peer(OUTER)
    expected = kind()
    fill(expected, SAMPLE)
    assert kind.FromString(encode(OUTER, SAMPLE)) == expected


def test_unpacked_numbers_unknown_fields_and_merged_parts() -> None:
    extra = Message("Extra").add(j=(10, "int64"), z=(99, "string"), y=(98, "double"), o=(15, INNER))
    data = b"".join(encode(extra, {"j": n, "z": "skip", "y": 1.0}) for n in (1, 2, 3))
    data += encode(extra, {"o": {"x": 1}}) + encode(extra, {"o": {"names": ["n"]}})
    assert plain(decode(OUTER, data)) == {"j": [1, 2, 3], "o": {"x": 1, "names": ["n"]}}


def test_bytes_are_views_of_the_input() -> None:
    data = bytearray(encode(OUTER, {"i": b"abc"}))
    decoded = decode(OUTER, data)["i"]
    data[-1] = ord("z")
    assert bytes(decoded) == b"abz"


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08" + b"\xff" * 11,
        b"\x4a\x05ab",
        b"\x0b",
        b"\x0f\x00",
        b"\x35\x00\x00",
        b"\x3a\x00",
        b"\x42\x01\xff",
        b"\x09" + b"\0" * 8,
        b"\x5a\x03abc",
    ],
    ids=[
        "cut tag",
        "endless number",
        "long field",
        "group",
        "wire type 7",
        "cut float",
        "double as bytes",
        "not UTF-8",
        "int32 as fixed",
        "odd floats",
    ],
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(OUTER, data)


def test_nesting_is_bounded() -> None:
    table = Message("Self")
    table.add(inner=(1, table))
    data = b""
    for _ in range(wire.MAX_DEPTH - 1):
        data = encode(table, {"inner": {}})[:1] + wire._write_varint(len(data)) + data
    decode(table, data)
    for _ in range(5):
        data = b"\x0a" + wire._write_varint(len(data)) + data
    with pytest.raises(WireError, match="nest"):
        decode(table, data)


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_VALUES", 1000)
    with pytest.raises(WireError, match="values"):
        decode(OUTER, encode(OUTER, {"j": [1] * 2000}))


def test_random_mutations_raise_nothing_else() -> None:
    rng = random.Random(5)
    whole = encode(OUTER, SAMPLE)
    bad = 0
    for _ in range(5000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode(OUTER, data[: rng.randrange(len(data) + 1)])
            decode(MODEL, data)
        except WireError:
            bad += 1
    assert bad > 1000
