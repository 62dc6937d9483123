"""Ways to spoil a file: at the level of bytes, of protobuf fields, of words in a text, of values in JSON, of parts of an `.om`."""

from __future__ import annotations

import copy
import itertools
import json
import re
import struct
from random import Random
from typing import Any

from softnpu.graph import container, digest
from softnpu.graph.model_def import MODEL
from softnpu.graph.wire import decode, encode

NUMBERS = (0, 1, -1, 2, 127, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (
    "0", "-1", "2147483648", "9223372036854775808", "18446744073709551616", "1e999", "nan", "-inf", "0x7fffffffffffffff", "1" * 400,
    "1" * 5000, "", "\0", "\ud800", "é", "🙂", "%s%n", "../../x", "a" * 70000, "{" * 2000, "[" * 100000, '"', "\\", "~", ";", ":", ",", "\n", "٣",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 10**400, -(2**63), 0.5, 1e308, float("nan"), "", "x", "\0", "🙂", "\ud800", "a" * 70000, [], {}, [[]], [None], [-1],
    [2**40] * 3, {"": 0}, [0] * 300, "1", "float", "ND",
)  # fmt: skip


# ---- bytes -----------------------------------------------------------------------------------------------------------


def spoil_bytes(data: bytes, rng: Random) -> bytes:
    """Flip, insert, delete, cut, repeat, swap, or write a huge number."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        spoilt = _spoil_once(spoilt, rng)
    return bytes(spoilt)


def _spoil_once(data: bytearray, rng: Random) -> bytearray:
    size = len(data)
    at = rng.randrange(size) if size else 0
    other = min(size, at + rng.choice((1, 2, 4, 8, 64, 1024)))
    way = rng.randrange(9)
    if way == 0 and size:
        data[at] ^= 1 << rng.randrange(8)
    elif way == 1 and size:
        data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif way == 2:
        data[at:at] = rng.randbytes(rng.choice((1, 2, 8, 100)))
    elif way == 3:
        del data[at:other]
    elif way == 4:
        del data[at:]
    elif way == 5:
        data[at:at] = data[at:other] * rng.choice((1, 2, 50))
    elif way == 6:
        target = rng.randrange(size) if size else 0
        chunk = data[at:other]
        data[target : target + len(chunk)] = chunk
    elif way == 7:
        data[at:at] = rng.choice((b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\xff" * 20, b"\x80" * 11))
    else:
        form = rng.choice(("<I", "<Q", ">I", ">Q"))
        data[at : at + struct.calcsize(form)] = struct.pack(
            form, rng.choice(NUMBERS) & ((1 << 8 * struct.calcsize(form)) - 1)
        )
    return data


# ---- protobuf --------------------------------------------------------------------------------------------------------

Tree = list[list[Any]]  # [number, wire type, value]; a value is an int, bytes or a tree


def parse(data: bytes, depth: int = 0) -> Tree | None:
    """The fields of a message without its table; None when it is none."""
    at, fields = 0, []
    while at < len(data):
        tag, at = _varint(data, at)
        if at < 0 or not tag >> 3:
            return None
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            if at < 0:
                return None
            fields.append([tag >> 3, 0, value])
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            if at + width > len(data):
                return None
            fields.append([tag >> 3, wire, data[at : at + width]])
            at += width
        elif wire == 2:
            size, at = _varint(data, at)
            if at < 0 or at + size > len(data):
                return None
            inner = data[at : at + size]
            tree = parse(inner, depth + 1) if size > 1 and depth < 20 and not inner.isalnum() else None
            fields.append([tag >> 3, 2, tree or inner])
            at += size
        else:
            return None
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
    return 0, -1


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def write(tree: Tree) -> bytes:
    """The bytes of a tree."""
    parts = []
    for number, wire, value in tree:
        parts.append(_number(number << 3 | wire))
        if wire == 0:
            parts.append(_number(value))
        elif wire == 2:
            inner = write(value) if isinstance(value, list) else value
            parts += [_number(len(inner)), inner]
        else:
            parts.append(value)
    return b"".join(parts)


def spoil_message(data: bytes, rng: Random) -> bytes:
    """Change fields of a message so that its lengths stay right; falls back to bytes."""
    tree = parse(data)
    if not tree:
        return spoil_bytes(data, rng)
    words = _words(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _spoil_field(tree, words, rng)
    return write(tree)


def _words(tree: Tree) -> list[bytes]:
    """Short values of a message: put elsewhere, a name makes two nodes one, or a circle."""
    short = [value for _, wire, value in tree if wire == 2 and isinstance(value, bytes) and len(value) < 32]
    for _, _, value in tree:
        if isinstance(value, list):
            short += _words(value)
    return short


def _spoil_field(tree: Tree, words: list[bytes], rng: Random) -> None:
    while True:
        index = rng.randrange(len(tree))
        value = tree[index][2]
        if not isinstance(value, list) or not value or rng.random() < 0.15:
            break
        tree = value
    number, wire, value = tree[index]
    way = rng.randrange(10)
    if way == 0:
        del tree[index]
        if not tree:
            tree.append([number, 0, 0])
    elif way == 1:
        tree[index:index] = [[number, wire, value]] * rng.choice((1, 2, 200))
    elif way == 2:
        tree[index][0] = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 100, 2**28))
    elif way == 3:
        other = rng.randrange(len(tree))
        tree[index], tree[other] = tree[other], tree[index]
    elif way == 4:
        deep: Any = [[number, wire, value]]
        for _ in range(rng.choice((5, 60, 300))):
            deep = [[number, 2, deep]]
        tree[index] = deep[0]
    elif way == 5:
        tree[index] = [number, rng.choice((0, 1, 2, 5)), None]
        tree[index][2] = {0: 1, 1: b"\0" * 8, 2: b"", 5: b"\0" * 4}[tree[index][1]]
    elif wire == 0:
        tree[index][2] = rng.choice((*NUMBERS, value + 1, value - 1, rng.randrange(32)))
    elif wire == 2 and isinstance(value, bytes):
        other = rng.choice(words or [b""])
        ways = (spoil_bytes(value, rng), b"", value * 2, value + b"\0", b"\xff\xfe", b"x" * 70000, other, other, other)
        tree[index][2] = rng.choice(ways)
    elif wire != 2:
        tree[index][2] = rng.choice((b"\xff", b"\0", b"\x7f")) * len(value)


# ---- text and JSON ---------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?|\s+|.", re.DOTALL)


def spoil_text(text: str, rng: Random) -> bytes:
    """Change words of a text; sometimes its bytes."""
    if rng.random() < 0.15:
        return spoil_bytes(text.encode(), rng)
    words = _WORD.findall(text) or [""]
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(words))
        end = min(len(words), at + rng.choice((1, 1, 3, 20)))
        way = rng.randrange(7)
        if way == 0:
            del words[at:end]
            words = words or [""]
        elif way == 1:
            words[at:at] = words[at:end] * rng.choice((1, 2, 500))
        elif way == 2:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif way == 3:
            words.insert(at, rng.choice(WORDS))
        else:
            numbers = [index for index, word in enumerate(words) if word.lstrip("-")[:1].isdigit()]
            place = rng.choice(numbers) if numbers and way > 4 else at
            words[place] = rng.choice((*WORDS, *map(str, NUMBERS), *rng.sample(words, 1)))
    return "".join(words).encode("utf-8", "surrogatepass")


def spoil_json(text: str, rng: Random) -> bytes:
    """Change values of a JSON text; sometimes the text itself."""
    if rng.random() < 0.3:
        return spoil_text(text, rng)
    value = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        value = _spoil_value(value, rng)
    return json.dumps(value).encode()


def _spoil_value(value: Any, rng: Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.08:
        if rng.random() < 0.1:
            for _ in range(rng.choice((5, 50, 200))):
                value = rng.choice(([value], {"a": value}))
            return value
        return copy.deepcopy(rng.choice(VALUES))
    key: Any = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    way = rng.random()
    if way < 0.1:
        del value[key]
    elif way < 0.2 and isinstance(value, list):
        value[key:key] = [value[key]] * rng.choice((1, 2, 300))
    elif way < 0.2 and isinstance(value, dict):
        value[rng.choice(("", "x", "name", "type", "shape", "🙂"))] = value.pop(key)
    else:
        value[key] = _spoil_value(value[key], rng)
    return value


# ---- offline models --------------------------------------------------------------------------------------------------


def spoil_om(data: bytes, rng: Random) -> bytes:
    """Spoil the bytes of an `.om`, or one of its parts with everything else, the digests too, put right again."""
    if rng.random() < 0.5:
        return spoil_bytes(data, rng)
    header, parts = container.read(data)
    spoilt = {kind: bytes(part) for kind, part in parts.items()}
    way = rng.randrange(4)
    if way == 0:
        spoilt[container.MODEL_DEF] = spoil_message(spoilt[container.MODEL_DEF], rng)
    elif way == 1:
        spoilt[container.MODEL_INOUT_INFO] = spoil_bytes(spoilt[container.MODEL_INOUT_INFO], rng)
    else:
        model = decode(MODEL, spoilt[container.MODEL_DEF])
        text = bytes(model["attr"]["softnpu"]["s"]).decode()
        model["attr"]["softnpu"] = {"s": spoil_json(text, rng)}
        spoilt[container.MODEL_DEF] = encode(MODEL, model)
    return sealed(header, spoilt)


def spoil_program(data: bytes, rng: Random) -> bytes:
    """Spoil the program of an `.om` and put the digests right: what only a forger does; it reaches the engine."""
    header, parts = container.read(data)
    spoilt = {kind: bytes(part) for kind, part in parts.items()}
    kernels = spoilt[container.TBE_KERNELS]
    name_length, size = struct.unpack_from("<II", kernels, 4)
    head = 12 + name_length
    body = kernels[head : head + size]
    sizes = struct.unpack_from("<QQQ", body)
    cuts = [24, 24 + sizes[0], 24 + sizes[0] + sizes[1], len(body)]
    pieces = [body[low:high] for low, high in itertools.pairwise(cuts)]
    which = rng.choice((0, 1, 1, 1, 2))
    if which == 2:
        pieces[2] = spoil_json(pieces[2].decode(), rng)
    else:
        pieces[which] = spoil_message(pieces[which], rng)
    program = struct.pack("<QQQ", *map(len, pieces)) + b"".join(pieces)
    item = kernels[:8] + struct.pack("<I", len(program)) + kernels[12:head] + program
    spoilt[container.TBE_KERNELS] = item + kernels[head + size :]
    return sealed(header, spoilt)


def sealed(header: container.Header, parts: dict[int, bytes]) -> bytes:
    """The bytes of an `.om` of these parts, with right lengths and digests."""
    store = parts[container.TBE_KERNELS][: -digest.ITEM_BYTES]
    graph, described = parts[container.MODEL_DEF], parts[container.MODEL_INOUT_INFO]
    parts[container.TBE_KERNELS] = store + digest.item(described, graph, [store], [parts[container.WEIGHTS_DATA]])
    table = bytearray(struct.pack("<II", len(parts), 0))
    offset = 0
    for kind, part in parts.items():
        table += struct.pack("<IIQQ", kind, 0, offset, len(part))
        offset += len(part)
    head = container._header(header.name, header.platform, header.dynamic, len(table) + offset)
    return bytes(head + table) + b"".join(parts.values())


SPOIL: dict[str, Any] = {
    "onnx": lambda data, rng: rng.choice((spoil_bytes, spoil_message, spoil_message))(data, rng),
    "tensorflow": lambda data, rng: rng.choice((spoil_bytes, spoil_message, spoil_message))(data, rng),
    "json": lambda data, rng: spoil_json(data.decode(), rng),
    "text": lambda data, rng: spoil_text(data.decode(), rng),
    "om": spoil_om,
    "program": spoil_program,
}


def spoil(kind: str, target: str, data: bytes, rng: Random) -> bytes:
    """Spoil a file as fits its kind."""
    suffix = target.rpartition(".")[2]
    if kind == "program":
        return bytes(spoil_program(data, rng))
    by_suffix = {
        "onnx": "onnx", "pb": "tensorflow", "caffemodel": "onnx", "prototxt": "text", "cfg": "text", "json": "json", "om": "om",
    }  # fmt: skip
    way = by_suffix.get(suffix)
    if way == "text" and data[:1] == b"{":
        way = "json"
    return bytes(SPOIL[way](data, rng)) if way else spoil_bytes(data, rng)
