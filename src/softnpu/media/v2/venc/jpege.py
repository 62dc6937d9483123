"""JPEG in an encode channel of `acl.himpi`."""

from __future__ import annotations

from softnpu.media.codecs.jpeg.encode import bound, encode
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc.frames import Coded, Engine, Host, Job
from softnpu.media.v2.venc.settings import DEFAULT_QUALITY, OWN_TABLES, tables_of

_QUANTISATION, _HUFFMAN, _SCAN = 0xDB, 0xC4, 0xDA


class JpegEngine(Engine):
    """Each picture becomes a file with the settings of the moment."""

    name = "jpege"

    def __init__(self, channel: Host) -> None:
        super().__init__(channel)
        self._standard = channel.settings.values["jpeg_huffman_param"]

    def encode(self, job: Job) -> list[tuple[Job, Coded]]:
        settings = self.channel.settings
        param, huffman = settings.values["jpeg_param"], settings.values["jpeg_huffman_param"]
        own = param.qfactor == OWN_TABLES
        tables = tables_of(param if own else None, huffman if huffman is not self._standard else None)
        quality = DEFAULT_QUALITY if own else param.qfactor
        data = encode(job.pixels, quality, tables, job.target is not None, param.mcu_per_ecs)
        if settings.merge_tables:
            data = merged(data)
        start = scan_start(data)
        return [(job, Coded(data, [(0, start), (start, len(data) - start)]))]

    def close(self) -> None:
        """It holds nothing."""


def _segments(data: bytes) -> list[tuple[int, int, int]]:
    """Marker, start and end of the segments from the start of the file to the picture data."""
    segments, at = [], 2
    while at + 4 <= len(data):
        marker, end = data[at + 1], at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        segments.append((marker, at, end))
        at = end
        if marker == _SCAN:
            break
    return segments


def scan_start(data: bytes) -> int:
    """Where the parameters of a file end and its picture begins."""
    return next((start for marker, start, _ in _segments(data) if marker == _SCAN), len(data))


def merged(data: bytes) -> bytes:
    """The same file with one segment for all quantisation tables and one for all Huffman tables."""
    parts, held = [data[:2]], {_QUANTISATION: b"", _HUFFMAN: b""}
    segments = _segments(data)
    for marker, start, end in segments:
        if marker in held:
            held[marker] += data[start + 4 : end]
    for marker, start, end in segments:
        if marker not in held:
            parts.append(data[start:end])
        elif contents := held[marker]:
            parts.append(bytes((0xFF, marker)) + (len(contents) + 2).to_bytes(2, "big") + contents)
            held[marker] = b""
    return b"".join(parts) + data[segments[-1][2] :]


def predicted_size(frame: Fields) -> int:
    """`venc_get_jpege_predicted_size`: no file of such a picture is larger."""
    shown = frame.v_frame
    return bound(shown.width, shown.height, shown.pixel_format)
