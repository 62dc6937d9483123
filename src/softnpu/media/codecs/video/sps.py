"""Sequence parameter sets of H.264 and H.265: the size of the pictures, and how far they are out of order."""

from __future__ import annotations

from typing import NamedTuple

from softnpu.base.errors import NpuError, codes

_LIMIT = 4096  # bytes that are read of a parameter set; real ones have less than a hundred
_HIGH = frozenset((100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135))
_EXTENDED_SAR = 255
_BASELINE = 66


class Sps(NamedTuple):
    """What a sequence parameter set says. `reorder` is None where it leaves open by how many pictures the order may differ."""

    width: int
    height: int
    bit_depth: int
    interlaced: bool
    chroma: int  # 0 none, 1 4:2:0, 2 4:2:2, 3 4:4:4
    profile: int
    reorder: int | None
    number_bits: int = 0  # H.264: of the number that each picture carries
    gaps: bool = False  # H.264: whether those numbers may leave some out


class Bits:
    """Reads a parameter set bit by bit; past its end is an error."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data) * 8
        self.number = int.from_bytes(data, "big")
        self.at = 0

    def u(self, count: int) -> int:
        if self.at + count > self.size:
            raise _damaged("it ends too early")
        self.at += count
        return self.number >> (self.size - self.at) & ((1 << count) - 1)

    def flag(self) -> bool:
        return bool(self.u(1))

    def ue(self) -> int:
        zeros = 0
        while not self.u(1):
            zeros += 1
            if zeros > 32:
                raise _damaged("a number has more than 32 bits")
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        value = self.ue()
        return (value + 1) // 2 if value & 1 else -(value // 2)

    def slice(self, begin: int, end: int) -> str:
        """Bits as text, for writing them again."""
        return (
            format(self.number >> (self.size - end) & ((1 << (end - begin)) - 1), f"0{end - begin}b")
            if end > begin
            else ""
        )


def _damaged(why: str) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM,
        f"the sequence parameter set of the video is damaged: {why}",
        "send the stream from its beginning, in whole packets",
    )


def parse(unit: bytes, codec: str) -> Sps:
    """Read a sequence parameter set, given from its header byte."""
    bits = Bits(unescape(unit[:_LIMIT]))
    return _parse_h264(bits) if codec == "h264" else _parse_hevc(bits)[0]


def unescape(data: bytes) -> bytes:
    """Take out the bytes that keep start codes out of a unit."""
    return data.replace(b"\0\0\3", b"\0\0")


def _size(coded: tuple[int, int], cropped: tuple[int, int]) -> tuple[int, int]:
    width, height = coded[0] - cropped[0], coded[1] - cropped[1]
    if not (0 < width <= 1 << 15 and 0 < height <= 1 << 15):
        raise _damaged(f"its pictures are {width}x{height}")
    return width, height


def _parse_h264(bits: Bits) -> Sps:
    bits.u(8)
    profile = bits.u(8)
    bits.u(16)
    bits.ue()
    chroma, depth = _chroma_h264(bits) if profile in _HIGH else (1, 8)
    number_bits = bits.ue() + 4
    order = _order_h264(bits)
    bits.ue()
    gaps = bits.flag()
    width, height = bits.ue() + 1, bits.ue() + 1
    progressive = bits.flag()
    bits.u(1 if progressive else 2)
    step_x = 2 if chroma in (1, 2) else 1
    step_y = (2 if chroma == 1 else 1) * (1 if progressive else 2)
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    size = _size(
        (width * 16, height * 16 * (1 if progressive else 2)), ((left + right) * step_x, (top + bottom) * step_y)
    )
    reorder = 0 if order == 2 or profile == _BASELINE else None
    if bits.flag():
        declared = _reorder_h264(bits)
        reorder = reorder if declared is None else declared
    return Sps(*size, depth, not progressive, chroma, profile, reorder, number_bits, gaps)


def _chroma_h264(bits: Bits) -> tuple[int, int]:
    chroma = bits.ue()
    if chroma == 3:
        bits.u(1)
    depth = bits.ue() + 8
    bits.ue()
    bits.u(1)
    if bits.flag():
        for index in range(8 if chroma != 3 else 12):
            if bits.flag():
                _skip_scaling(bits, 16 if index < 6 else 64)
    return chroma, depth


def _skip_scaling(bits: Bits, count: int) -> None:
    following = 8
    for _ in range(count):
        following = (following + bits.se()) & 255
        if not following:
            return


def _order_h264(bits: Bits) -> int:
    """The type of the picture order count; 2 means that pictures come out as they are decoded."""
    order = bits.ue()
    if order == 0:
        bits.ue()
    elif order == 1:
        bits.u(1)
        bits.se()
        bits.se()
        count = bits.ue()
        if count > 255:
            raise _damaged(f"its cycle has {count} pictures")
        for _ in range(count):
            bits.se()
    return order


def _reorder_h264(bits: Bits) -> int | None:
    """The bitstream restriction at the end of the usability information. Damage there costs only this knowledge."""
    try:
        if bits.flag() and bits.u(8) == _EXTENDED_SAR:
            bits.u(32)
        if bits.flag():
            bits.u(1)
        if bits.flag():
            bits.u(4)
            if bits.flag():
                bits.u(24)
        if bits.flag():
            bits.ue()
            bits.ue()
        if bits.flag():
            bits.u(65)
        timed = False
        for _ in range(2):
            if bits.flag():
                _skip_hrd(bits)
                timed = True
        bits.u(2 if timed else 1)
        if not bits.flag():
            return None
        bits.u(1)
        for _ in range(4):
            bits.ue()
        return bits.ue()
    except NpuError:
        return None


def _skip_hrd(bits: Bits) -> None:
    count = bits.ue() + 1
    bits.u(8)
    for _ in range(min(count, 33)):
        bits.ue()
        bits.ue()
        bits.u(1)
    bits.u(20)


def _parse_hevc(bits: Bits) -> tuple[Sps, int, int, list[int]]:
    """The facts, and for `in_decode_order` from which to which bit the reordering is declared and the buffers it needs."""
    bits.u(16 + 4)
    layers = bits.u(3)
    bits.u(1)
    profile, interlaced = _profile_hevc(bits, layers)
    bits.ue()
    chroma = bits.ue()
    if chroma == 3:
        bits.u(1)
    width, height = bits.ue(), bits.ue()
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    size = _size(
        (width, height), ((left + right) * (2 if chroma in (1, 2) else 1), (top + bottom) * (2 if chroma == 1 else 1))
    )
    depth = bits.ue() + 8
    bits.ue()
    bits.ue()
    each = bits.flag()
    begin = bits.at
    buffers, reorder = [], 0
    for _ in range(layers + 1 if each else 1):
        buffers.append(bits.ue())
        reorder = bits.ue()
        bits.ue()
    return Sps(*size, depth, interlaced, chroma, profile, reorder), begin, bits.at, buffers


def _profile_hevc(bits: Bits, layers: int) -> tuple[int, bool]:
    profile = bits.u(8) & 31
    bits.u(32)
    progressive, interlaced = bits.flag(), bits.flag()
    bits.u(46 + 8)
    present = [(bits.flag(), bits.flag()) for _ in range(layers)]
    if layers:
        bits.u(2 * (8 - layers))
    for with_profile, with_level in present:
        bits.u((88 if with_profile else 0) + (8 if with_level else 0))
    return profile, interlaced and not progressive


def in_decode_order(unit: bytes) -> bytes:
    """An H.265 parameter set that declares no reordering: a decoder then hands out every picture when it is decoded.

    Nothing else depends on the declaration. A parameter set longer than the limit is left as it is.
    """
    if len(unit) > _LIMIT:
        return unit
    bits = Bits(unescape(unit[:_LIMIT]))
    _, begin, end, buffers = _parse_hevc(bits)
    text = bits.slice(0, begin)
    text += "".join(_ue(count) + _ue(0) + _ue(0) for count in buffers)
    text += bits.slice(end, bits.size).rstrip("0")
    text += "0" * (-len(text) % 8)
    return _escape(int(text, 2).to_bytes(len(text) // 8, "big"))


def _ue(value: int) -> str:
    digits = format(value + 1, "b")
    return "0" * (len(digits) - 1) + digits


def _escape(data: bytes) -> bytes:
    """Put the byte 3 wherever the data would look like a start code."""
    result, zeros = bytearray(), 0
    for value in data:
        if zeros >= 2 and value <= 3:
            result.append(3)
            zeros = 0
        result.append(value)
        zeros = zeros + 1 if value == 0 else 0
    return bytes(result)
