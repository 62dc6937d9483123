"""Annex B byte streams: NAL units behind start codes, and the access units (one picture each) that they form."""

from __future__ import annotations

from typing import Literal

Codec = Literal["h264", "hevc"]
Unit = tuple[int, int, int]
START = b"\0\0\1"
_EARLY = {  # units that stand before the first slice of a picture: after a slice they belong to the next picture
    "h264": frozenset((6, 7, 8, 9, 14, 15, 16, 17, 18)),
    "hevc": frozenset((32, 33, 34, 35, 39, *range(41, 45), *range(48, 56))),
}
_DELIMITER = {"h264": 9, "hevc": 35}
_SLICES = {"h264": frozenset((1, 2, 3, 4, 5)), "hevc": frozenset(range(32))}
_PARTITIONS = frozenset((3, 4))  # of H.264: they continue the slice of a unit of type 2
_SPS = {"h264": 7, "hevc": 33}
_KNOWN = {
    "h264": frozenset((*range(1, 16), 19, 20, 21)),
    "hevc": frozenset((*range(10), *range(16, 22), *range(32, 41))),
}


def units(data: bytes | memoryview, codec: Codec = "h264") -> list[Unit]:
    """The NAL units as (type, offset, length). Each begins with its start code, so that together they are all of the data.

    The list is empty when the data does not begin with a start code (3 or 4 bytes, after any number of zeros).
    """
    nal_units: list[Unit] = []
    data = bytes(data)
    at = data.find(START)
    if at < 0 or data[:at].strip(b"\0"):
        return nal_units
    begin = 0
    while at >= 0:
        following = data.find(START, at + 3)
        end = following if following >= 0 else len(data)
        if following >= 0 and data[following - 1] == 0 and following - 1 > at + 3:
            end = following - 1
        if at + 3 < end:  # a start code with nothing behind it is no unit
            nal_units.append((_type(data[at + 3], codec), begin, end - begin))
            begin = end
        at = following
    return nal_units


def _type(first: int, codec: Codec) -> int:
    return first & 31 if codec == "h264" else first >> 1 & 63


def body(data: bytes, unit: Unit) -> int:
    """Where the unit's header byte is: behind its start code."""
    return data.index(START, unit[1]) + 3


def is_slice(kind: int, codec: Codec) -> bool:
    """Whether a unit of this type carries a part of a picture."""
    return kind in _SLICES[codec]


def is_known(kind: int, codec: Codec) -> bool:
    """Whether the standard gives this type a meaning; other types are a sign of another codec."""
    return kind in _KNOWN[codec]


def begins_picture(data: bytes, unit: Unit, codec: Codec) -> bool:
    """Whether it is the first slice of a picture."""
    kind, offset, length = unit
    if not is_slice(kind, codec) or (codec == "h264" and kind in _PARTITIONS):
        return False
    at = body(data, unit) + (1 if codec == "h264" else 2)
    return at < offset + length and data[at] >= 0x80 and _layer(data, at - 2, codec) == 0


def _layer(data: bytes, at: int, codec: Codec) -> int:
    return 0 if codec == "h264" else (data[at] & 1) << 5 | data[at + 1] >> 3


def pictures(data: bytes, nal_units: list[Unit], codec: Codec) -> list[list[Unit]]:
    """The units grouped: each group is one picture (or field) with what stands before it.

    Units that stand before a picture start a group of their own only when a first slice follows them: H.264's prefix units may
    stand between two slices. What follows the last picture and belongs to a next one is a group without a slice.
    """
    groups: list[list[Unit]] = [[]]
    early: list[Unit] = []
    open_picture = False
    for unit in nal_units:
        kind = unit[0]
        if kind == _DELIMITER[codec] and open_picture:
            groups.append(early)
            early, open_picture = [], False
        if not open_picture:
            groups[-1].append(unit)
            open_picture = is_slice(kind, codec)
        elif begins_picture(data, unit, codec):
            groups.append([*early, unit])
            early = []
        elif kind in _EARLY[codec]:
            early.append(unit)
        else:
            groups[-1] += [*early, unit]
            early = []
    return [group for group in (*groups, early) if group]


def access_units(data: bytes | memoryview, codec: Codec) -> list[memoryview]:
    """Cut a byte stream, such as a file, into packets for a decoder: one picture each. For programs: docs/howto_media.md."""
    data = bytes(data)
    whole = memoryview(data)
    return [whole[group[0][1] : group[-1][1] + group[-1][2]] for group in pictures(data, units(data, codec), codec)]


def sps_unit(data: bytes, nal_units: list[Unit], codec: Codec) -> bytes | None:
    """The last sequence parameter set (of the base layer) among the units, from its header byte."""
    last = None
    for unit in nal_units:
        if unit[0] == _SPS[codec]:
            at = body(data, unit)
            if at + 2 <= unit[1] + unit[2] and _layer(data, at, codec) == 0:
                last = data[at : unit[1] + unit[2]]
    return last
