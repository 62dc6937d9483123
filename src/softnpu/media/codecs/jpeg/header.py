"""The header of a JPEG file: size, sub-sampling, orientation, and why the decoder of a chip refuses a file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from softnpu.base.errors import NpuError, codes

MAX_SIDE = 16384
_SOI, _EOI, _SOS, _DAC = 0xD8, 0xD9, 0xDA, 0xCC
_APP_JFIF, _APP_EXIF, _APP_ADOBE = 0xE0, 0xE1, 0xEE
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, _DAC}
_BARE = frozenset((0x01, *range(0xD0, 0xD8)))  # markers without a length
_END = b"\xff\xd9"
_MARKER = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)  # what lies before it is fill or rubbish, as libjpeg sees it
_RATIOS = {(1, 1): "444", (2, 1): "422", (2, 2): "420", (1, 2): "440", (4, 1): "411"}
_ORIENTATION = 0x0112


@dataclass(slots=True)
class JpegInfo:
    """What the markers before the picture data say. `width` and `height` are those of the file, before any rotation."""

    width: int = 0
    height: int = 0
    components: int = 0
    sampling: str = "unknown"
    progressive: bool = False
    arithmetic: bool = False
    lossless: bool = False
    precision: int = 8
    orientation: int = 1
    scans: int | None = None
    complete: bool = False
    hierarchical: bool = False
    rgb: bool = False  # the three components are red, green, blue
    factors: tuple[tuple[int, int], ...] = ()  # of each component: horizontal, vertical

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height after the orientation is applied."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)


def parse(data: object) -> JpegInfo:
    """The header of a file in memory. Reads each byte at most once, and the picture data only where its end is not at the end."""
    view = as_bytes(data)
    if bytes(view[:3]) != b"\xff\xd8\xff":
        raise _broken("it does not begin with FF D8 FF")
    info = JpegInfo()
    colour = _Colour()
    for marker, start, end in _segments(view):
        if marker in _FRAMES:
            _read_frame(info, colour, marker, view[start:end])
        elif marker == _APP_EXIF:
            if info.orientation == 1:
                info.orientation = _orientation(bytes(view[start:end]))
        elif marker == _APP_JFIF:
            colour.jfif = colour.jfif or bytes(view[start : start + 5]) == b"JFIF\0"
        elif marker == _APP_ADOBE:
            if end - start >= 12 and bytes(view[start : start + 5]) == b"Adobe":
                colour.transform = view[start + 11]
        elif marker == _DAC:
            info.arithmetic = True
        elif marker in (0xDE, 0xDF):
            info.hierarchical = True
        elif marker == _SOS:
            _read_scan(info, view, start, end)
    info.rgb = colour.is_rgb()
    return info


def refused(info: JpegInfo, strict: bool) -> str | None:
    """Why the decoder of the chips refuses this file, or None. Without `strict` a file may lack its end marker, as long as its picture data is whole."""
    kinds = (
        (info.hierarchical, "it is hierarchical"),
        (info.lossless, "it is a lossless JPEG"),
        (info.arithmetic, "it is arithmetic coded"),
        (info.progressive, "it is progressive"),
        (info.precision != 8, f"its samples have {info.precision} bits"),
        (info.components not in (1, 3), f"it has {info.components} colour components"),
        (info.sampling in ("411", "unknown"), f"its chroma sub-sampling is {info.sampling} {info.factors}"),
        (max(info.width, info.height) > MAX_SIDE, f"it is {info.width}x{info.height}, larger than {MAX_SIDE}"),
        (strict and not info.complete, "its end marker is missing"),
    )
    return next((text for wrong, text in kinds if wrong), None)


def as_bytes(data: object) -> memoryview:
    """Any object with bytes in one piece, as a flat view of them."""
    try:
        view = memoryview(data)  # type: ignore[arg-type]
        return view if view.format == "B" and view.ndim == 1 and view.c_contiguous else view.cast("B")
    except TypeError as error:
        raise NpuError(
            codes.INVALID_PARAM, f"the file must be bytes in one piece: {error}", "pass bytes or an array of uint8"
        ) from error


def _broken(text: str) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM, f"the JPEG file is damaged: {text}", "check the file and the size passed with it"
    )


def _segments(view: memoryview) -> Iterator[tuple[int, int, int]]:
    """Marker, start and end of the contents of each segment, up to the first start of scan."""
    position = 2
    while True:
        marker, position = _next_marker(view, position)
        if marker in _BARE:
            continue
        if marker in (_SOI, _EOI):
            raise _broken(f"marker FF {marker:02X} at byte {position - 2}, before any picture data")
        end = _segment_end(view, position)
        yield marker, position + 2, end
        if marker == _SOS:
            return
        position = end


def _next_marker(view: memoryview, position: int) -> tuple[int, int]:
    match = _MARKER.search(view, position)
    if match is None:
        raise _broken(f"no further marker after byte {position} of {len(view)}")
    return view[match.end() - 1], match.end()


def _segment_end(view: memoryview, position: int) -> int:
    length = int.from_bytes(view[position : position + 2], "big")
    if length < 2 or position + length > len(view):
        raise _broken(f"the segment at byte {position - 2} has the length {length}, the file has {len(view)} bytes")
    return position + length


@dataclass(slots=True)
class _Colour:
    """What tells YCbCr from RGB: JFIF is always YCbCr, Adobe's marker says it, and else the names of the components."""

    jfif: bool = False
    transform: int | None = None
    names: bytes = b""

    def is_rgb(self) -> bool:
        if self.jfif or len(self.names) != 3:
            return False
        return self.names == b"RGB" if self.transform is None else self.transform == 0


def _read_frame(info: JpegInfo, colour: _Colour, marker: int, frame: memoryview) -> None:
    if info.width:
        raise _broken("it has two frame headers")
    if len(frame) < 6 or len(frame) != 6 + 3 * frame[5]:
        raise _broken(f"its frame header has {len(frame)} bytes")
    info.precision, info.height, info.width, info.components = struct.unpack_from(">BHHB", frame)
    if not (info.width and info.height and 1 <= info.components <= 4):
        raise _broken(f"it says {info.width}x{info.height} with {info.components} components")
    info.factors = tuple((byte >> 4, byte & 15) for byte in frame[7::3])
    if any(not (1 <= x <= 4 and 1 <= y <= 4) for x, y in info.factors):
        raise _broken(f"its sampling factors are {info.factors}")
    info.sampling = _sampling(info.factors)
    colour.names = bytes(frame[6::3])
    info.progressive = marker & 3 == 2
    info.lossless = marker & 3 == 3
    info.hierarchical |= marker & 4 == 4
    info.arithmetic |= marker > 0xC8


def _sampling(factors: tuple[tuple[int, int], ...]) -> str:
    if len(factors) == 1:
        return "400"
    if len(factors) != 3 or factors[1] != factors[2]:
        return "unknown"
    (x, y), (chroma_x, chroma_y) = factors[:2]
    if x % chroma_x or y % chroma_y:
        return "unknown"
    return _RATIOS.get((x // chroma_x, y // chroma_y), "unknown")


def _read_scan(info: JpegInfo, view: memoryview, start: int, end: int) -> None:
    count = view[start] if end > start else 0
    if not info.width:
        raise _broken("its picture data comes before its frame header")
    if not 1 <= count <= info.components or end - start != 4 + 2 * count:
        raise _broken(f"its scan header has {end - start} bytes for {count} of {info.components} components")
    if count == info.components and not info.progressive:
        info.scans = 1
        info.complete = view[-2:] == _END or bytes(view[end:]).find(_END) >= 0
    else:
        info.scans, info.complete = _walk_scans(view, end)


def _walk_scans(view: memoryview, position: int) -> tuple[int, bool]:
    """How many scans there are from the first one on, and whether the end marker follows them."""
    scans = 1
    while match := _MARKER.search(view, position):
        marker, position = view[match.end() - 1], match.end()
        if marker == _EOI:
            return scans, True
        if marker in _BARE:
            continue
        scans += marker == _SOS
        position += max(2, int.from_bytes(view[position : position + 2], "big"))
    return scans, False


def _orientation(segment: bytes) -> int:
    """The orientation in an APP1 segment; 1 where it has none that can be read, as the manual wants."""
    if segment[:6] != b"Exif\0\0" or segment[6:8] not in (b"II", b"MM"):
        return 1
    tiff = segment[6:]
    order = "<" if tiff[:2] == b"II" else ">"
    try:
        magic, directory = struct.unpack_from(order + "HI", tiff, 2)
        (count,) = struct.unpack_from(order + "H", tiff, directory)
        for index in range(count if magic == 42 else 0):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, directory + 2 + 12 * index)
            if tag == _ORIENTATION:
                return value if kind == 3 and 1 <= value <= 8 else 1
    except struct.error:  # a directory that runs past the segment
        return 1
    return 1
