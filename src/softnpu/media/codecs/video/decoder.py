"""H.264 and H.265 decoding: packets in, one answer for each packet out. It has no threads of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log
from softnpu.media import doors
from softnpu.media.codecs.video import annexb
from softnpu.media.codecs.video.annexb import Codec, Unit
from softnpu.media.codecs.video.frames import pixels_of
from softnpu.media.codecs.video.numbers import PictureNumbers
from softnpu.media.codecs.video.sps import Sps, in_decode_order, parse
from softnpu.media.pixels.picture import Pixels

THREADS = 1  # of FFmpeg for one decoder: programs open several channels, and those share the cores
MAX_PIXELS = 8192 * 8192  # what the most capable chip decodes; a damaged size must not take all memory
MAX_PARAMETERS = 1 << 20  # bytes of parameter sets that wait for their picture
MAX_PASSED = 16  # so many later pictures may come out before one that is still inside
MAX_WAITING = 40  # more pictures FFmpeg never holds back
_FRAME_TYPES = {1: 0, 2: 1, 3: 2, 4: 1, 5: 0, 6: 1, 7: 0}  # FFmpeg's I, P, B, S, SI, SP, BI
_SPS_H264, _SPS_HEVC, _SEI_HEVC = 7, 33, (39, 40)
_BROKEN_LINK, _LEADING = range(16, 19), (8, 9)  # H.265 pictures that refer to some before the point of entry
_KEY = {"h264": (5,), "hevc": range(16, 22)}
_LOST = "no picture came of it: it is damaged, or it refers to pictures that the decoder does not have"


@dataclass
class Decoded:
    """The answer for one packet: a picture, or an error, or neither because the packet holds no picture of its own."""

    token: object
    pixels: Pixels | None = None
    error: str | None = None
    frame_type: int = 0  # 0 I, 1 P, 2 B
    no_picture: bool = False


@dataclass
class _Waiting:
    token: object
    passed: int = 0  # pictures of later packets that have come out
    missing: bool = False  # a picture before it, to which it may refer, did not come
    pictures: int = 0  # first slices in it


class VideoDecoder:
    """Decodes one stream. Whatever the data, nothing is raised and every packet gets exactly one answer, at the latest from flush.

    Pictures come in display order. With `immediate` they come in the order of the packets; then an H.265 picture always comes
    out of the send that brought it, an H.264 picture does so in streams without B pictures. Others declare how long to wait; of
    those that do not, the first B pictures are lost.
    A packet should be one access unit. Of several in one packet the first picture is delivered, the others are dropped;
    parameter sets in a packet of their own are kept for the next picture; a packet that begins within a picture is an error.
    """

    def __init__(self, codec: Codec, *, immediate: bool = False) -> None:
        if codec not in ("h264", "hevc"):
            raise NpuError(codes.INVALID_PARAM, f"there is no decoder for {codec!r}", "use h264 or hevc")
        self.codec: Codec = codec
        self.immediate = immediate
        self._av = doors.av()
        self._context: Any = None
        self._sequence: bytes | None = None
        self.info: Sps | None = None  # of the parameter set in use
        self._parameters = b""
        self._serial = 0
        self._waiting: dict[int, _Waiting] = {}
        self._answers: list[tuple[int, Decoded]] = []
        self._told = False
        self._fresh = True  # no picture has been decoded since the beginning
        self._tainted = False  # something was damaged: FFmpeg's next pictures can suffer, key pictures too
        self._skip_leading = False
        self._numbers = PictureNumbers()

    def send(self, data: bytes | memoryview, token: object) -> list[Decoded]:
        """Decode a packet; the answers that are ready, of this or earlier packets."""
        self._serial += 1
        self._waiting[self._serial] = _Waiting(token)
        data = bytes(data)
        nal_units = annexb.units(data, self.codec)
        if nal_units:
            self._send_units(data, nal_units)
        else:
            self._fail(
                self._serial,
                "it is empty"
                if not data
                else "it is not Annex B: it does not begin with a start code (packets of MP4 and MKV files need the filter h264_mp4toannexb or hevc_mp4toannexb)",
            )
        self._give_up()
        return self._take()

    def flush(self) -> list[Decoded]:
        """Everything that is still inside. The next packet begins a new stream."""
        self._drain()
        return self._take()

    def close(self) -> None:
        """Give the codec's memory back; packets without an answer are forgotten."""
        self._context = self._sequence = None
        self._waiting.clear()
        self._answers.clear()

    def _send_units(self, data: bytes, nal_units: list[Unit]) -> None:
        serial, sent, broken = self._serial, 0, False
        for group in annexb.pictures(data, nal_units, self.codec):
            first = next((unit for unit in group if annexb.is_slice(unit[0], self.codec)), None)
            if first is None:
                kept = self._parameters if len(self._parameters) < MAX_PARAMETERS else b""
                self._parameters = kept + _bytes_of(data, group)
            elif annexb.begins_picture(data, first, self.codec):
                self._send_picture(data, group, first[0], serial)
                sent += 1
            else:
                broken = True
        if sent == 0:
            self._no_picture_in(serial, nal_units, broken)

    def _no_picture_in(self, serial: int, nal_units: list[Unit], broken: bool) -> None:
        """Answer a packet of which nothing was decoded."""
        strange = [kind for kind, _, _ in nal_units if not annexb.is_known(kind, self.codec)]
        if broken:
            self._fail(serial, "it begins within a picture; a packet must be a whole access unit")
        elif strange:
            self._fail(
                serial, f"it holds a unit of type {strange[0]}, which {self.codec} does not have; is it another codec?"
            )
        else:
            self._answer(serial, no_picture=True)

    def _send_picture(self, data: bytes, group: list[Unit], kind: int, serial: int) -> None:
        """Decode an access unit, with the parameter sets that came before it; without those where they are the trouble."""
        if self._parameters:
            whole = self._parameters + _bytes_of(data, group)
            self._parameters = b""
            if not self._decode(whole, annexb.units(whole, self.codec), kind, serial):
                return
        why = self._decode(data, group, kind, serial)
        if why:
            self._fail(serial, why)

    def _decode(self, data: bytes, group: list[Unit], kind: int, serial: int) -> str:
        """Give an access unit to FFmpeg and take what comes out; why it could not be decoded, or an empty text."""
        sequence = annexb.sps_unit(data, group, self.codec)
        other = sequence != self._sequence or self._tainted
        if sequence is not None and other and (self._context is None or kind in _KEY[self.codec]):
            self._begin(sequence, serial)
            if self.info is not None and sum(unit[0] == _SPS_H264 for unit in group) > 1:
                self.info = self.info._replace(gaps=True)  # whose numbers follow which set is not known
        if self._context is None:
            return "no sequence parameter set has come before it"
        if self.codec == "hevc" and self._skips(kind):
            self._answer(serial, no_picture=True)
            return ""
        second = self.codec == "h264" and self._is_second_field(data, group, serial)
        packet = self._av.Packet(self._prepare_hevc(data, group) if self.codec == "hevc" else _bytes_of(data, group))
        packet.pts = serial
        try:
            frames = self._context.decode(packet)
        except self._av.error.FFmpegError as error:
            return f"it cannot be decoded: {error.strerror}"
        self._fresh = False
        for frame in frames:
            self._frame(frame)
        if second:
            self._answer(serial, no_picture=True)
        return ""

    def _is_second_field(self, data: bytes, group: list[Unit], serial: int) -> bool:
        """Whether the picture of this packet is that of the packet before it; also notes a picture that is missing."""
        if self.info is None:
            return False
        first = next((unit for unit in group if annexb.begins_picture(data, unit, self.codec)), None)
        if first is None:
            return False
        at = annexb.body(data, first)
        second, missing = self._numbers.see(data[at : first[1] + first[2]], self.info)
        entry = self._waiting.get(serial)
        if entry is None:  # answered: it is not the first in its packet
            return False
        entry.missing |= missing
        entry.pictures += 1
        return second and entry.pictures == 1

    def _skips(self, kind: int) -> bool:
        """Whether an H.265 picture is not to be shown: the stream was entered after the pictures that it refers to."""
        if kind in _KEY["hevc"]:
            self._skip_leading = self._fresh or kind in _BROKEN_LINK
        return self._skip_leading and kind in _LEADING

    def _begin(self, sequence: bytes, serial: int) -> None:
        """Open a decoder for a stream with this parameter set; what the one before still holds comes out first."""
        current = self._waiting.pop(serial, None)
        self._drain()
        if current is not None:
            self._waiting[serial] = current
        try:
            self.info = parse(sequence, self.codec)
        except NpuError:
            self.info = None  # FFmpeg may be able to read it, and says so if it is not
        self._sequence = sequence
        context = self._av.CodecContext.create(self.codec, "r")
        context.thread_count = THREADS
        flags = self._av.codec.context.Flags
        self._fresh = True
        self._tainted = False
        self._numbers = PictureNumbers()
        context.flags |= flags.output_corrupt | flags.unaligned
        context.options = {"max_pixels": str(MAX_PIXELS)}
        if self.codec == "hevc":
            context.options = {**context.options, "err_detect": "explode"}  # else half a picture counts as a whole one
        elif not self.immediate and (self.info is None or self.info.reorder is None):
            # The stream does not say how far its pictures are out of order. FFmpeg would guess and lose the first that are.
            context.options = {**context.options, "strict": "strict"}
        self._context = context

    def _prepare_hevc(self, data: bytes, group: list[Unit]) -> bytes:
        """Leave out messages (damage in them must cost no picture), and declare no reordering for pictures at once."""
        parts = []
        for kind, offset, length in group:
            part = data[offset : offset + length]
            if self.immediate and kind == _SPS_HEVC:
                at = part.index(annexb.START) + 3
                part = part[:at] + _without_reordering(part[at:])
            if kind not in _SEI_HEVC:
                parts.append(part)
        return b"".join(parts)

    def _frame(self, frame: Any) -> None:
        serial = frame.pts
        if serial not in self._waiting:
            self._note_dropped(serial)
            return
        for other in [number for number in self._waiting if number < serial]:
            self._waiting[other].passed += 1
            if frame.key_frame or self._waiting[other].passed > MAX_PASSED:
                self._lose(other)
        pixels = None if frame.is_corrupt else pixels_of(frame)
        if frame.is_corrupt:
            self._fail(serial, "its picture is damaged")
        elif self._waiting[serial].missing:
            self._fail(serial, "a picture before it did not come")
        elif pixels is None:
            self._fail(serial, f"its pictures are {frame.format.name}; only 4:2:0 of 8 and 10 bits is supported")
        else:
            self._answer(serial, pixels=pixels, frame_type=_FRAME_TYPES.get(int(frame.pict_type), 0))

    def _note_dropped(self, serial: int) -> None:
        if not self._told:
            self._told = True
            text = f"packet {serial} of a video gave a picture after it was answered (more than one access unit in a packet, or an error before it); that picture is dropped"
            log().write(WARNING, text, "DVPP", "vdec")

    def _give_up(self) -> None:
        """Answer packets whose picture cannot come any more."""
        if self._context is not None and self._context.reorder_depth == 0:
            fields = self.info is not None and self.info.interlaced  # a first field waits for the second
            for serial in [number for number, entry in self._waiting.items() if entry.passed or not fields]:
                self._lose(serial)
        while len(self._waiting) > MAX_WAITING:
            self._lose(next(iter(self._waiting)))

    def _lose(self, serial: int) -> None:
        if self.info is not None and self.info.interlaced:
            self._answer(serial, no_picture=True)
        else:
            self._fail(serial, _LOST)

    def _drain(self) -> None:
        if self._context is not None and self._context.is_open:
            try:
                frames = self._context.decode(None)
            except self._av.error.FFmpegError:
                frames = []  # the packets concerned are answered below
            for frame in frames:
                self._frame(frame)
            self._context.flush_buffers()
            self._fresh = True
            self._numbers = PictureNumbers()
        for serial in list(self._waiting):
            self._lose(serial)

    def _fail(self, serial: int, why: str) -> None:
        self._tainted = True
        self._answer(serial, error=f"packet {serial} of the {self.codec} stream: {why}")

    def _answer(self, serial: int, **values: Any) -> None:
        entry = self._waiting.pop(serial, None)
        if entry is not None:
            self._answers.append((serial, Decoded(entry.token, **values)))

    def _take(self) -> list[Decoded]:
        """The answers so far; in the order of the packets if that is wanted."""
        ready, self._answers = self._answers, []
        if self.immediate:
            first = min(self._waiting, default=self._serial + 1)
            self._answers = [pair for pair in ready if pair[0] > first]
            ready = sorted((pair for pair in ready if pair[0] < first), key=lambda pair: pair[0])
        return [answer for _, answer in ready]


def _bytes_of(data: bytes, group: list[Unit]) -> bytes:
    return data[group[0][1] : group[-1][1] + group[-1][2]]


def _without_reordering(unit: bytes) -> bytes:
    try:
        return in_decode_order(unit)
    except NpuError:
        return unit
