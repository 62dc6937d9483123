"""A decode channel of `acl.himpi`: packets in, frames out. What decodes (video, JPEG) is its engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from softnpu import constants as c
from softnpu.base.recent import recent
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.v2.checks import check_in
from softnpu.media.v2.coder import Coder
from softnpu.media.v2.errors import failure
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.vdec import structs
from softnpu.media.v2.vdec.checks import check_attr, check_count, check_param
from softnpu.media.v2.vdec.frames import FAILED, GOOD, Engine, Frame, Packet
from softnpu.media.v2.vdec.jpegd import JpegEngine
from softnpu.media.v2.vdec.video import VideoEngine

_MAX_WAITING = 1024
_MAX_RESULTS = 512  # results are a few numbers, the pictures lie in the program's memory
_MANY_UNRELEASED = 64


class DecodeChannel(Coder):
    """A channel of VDEC or JPEGD, from `vdec_create_chn` to `vdec_destroy_chn`."""

    module = "vdec"

    def __init__(self, number: int, attr: Fields, others: Sequence[DecodeChannel] = ()) -> None:
        super().__init__(number)
        check_attr(attr)
        if attr.type != c.HI_PT_JPEG:
            check_count(sum(not channel.is_jpeg and channel.device is self.device for channel in others))
        self.attr = attr
        self.param = structs.CHN_PARAM.blank()
        self.param.type = attr.type
        self.param.pic_param.pixel_format = c.HI_PIXEL_FORMAT_UNKNOWN
        self.param.pic_param.alpha = 255
        self.protocol = structs.PROTOCOL_PARAM.blank()
        self.protocol.type = attr.type
        self.display_mode = 0
        self.precision = 0
        self.csc: Any = None  # set by sys_set_chn_csc_matrix
        self.engine = _engine(self)
        self._engine_is_old = self._has_stream = False
        self.released: Counter[int] = Counter()  # output addresses that were handed out and not released
        self.received = self.decoded = self.left_bytes = 0
        self.errors = structs.STATUS.blank().dec_err
        self.stream_size = (0, 0)
        self.latest_pts = 0

    @property
    def is_jpeg(self) -> bool:
        """Whether it is a channel of JPEGD."""
        return bool(self.attr.type == c.HI_PT_JPEG)

    @property
    def mod_id(self) -> int:
        """The module that its frames name."""
        return c.HI_ID_JPEGD if self.is_jpeg else c.HI_ID_VDEC

    # ---- sending ----------------------------------------------------------------------------------------------------

    def send(self, stream: Fields, picture: Fields, ms: int) -> None:
        """`vdec_send_stream`: the packet is copied here."""
        packet = self._packet(stream, picture)
        with self.changed:
            self._need_started()
            room = self.wait_until(lambda: not self.started or self._fits(packet), ms)
            self._need_started()
            if not room:
                raise self.error(
                    "BUF_FULL",
                    f"{len(self.waiting)} packets with {self.left_bytes} of {self.attr.stream_buf_size} bytes wait, {len(self.results)} frames are ready",
                    "take frames with vdec_get_frame, then send again",
                )
            self.put(packet)
            self.received += packet.size > 0
            self._has_stream = not stream.end_of_stream
            self.left_bytes += packet.size

    def _need_started(self) -> None:
        self.need_open()
        if not self.started:
            raise self.error("NOT_PERM", "it does not take packets now", "call vdec_start_recv_stream first")

    def _fits(self, packet: Packet) -> bool:
        return self.left_bytes + packet.size <= self.attr.stream_buf_size and len(self.waiting) < _MAX_WAITING

    def _packet(self, stream: Fields, picture: Fields) -> Packet:
        if not stream.len or not stream.addr:
            if not stream.end_of_stream:
                raise self.error(
                    "ILLEGAL_PARAM",
                    f"the packet is empty (len {stream.len}, addr {stream.addr:#x})",
                    "an empty packet must have end_of_stream 1",
                )
            return Packet(stream, picture, b"")
        if stream.len > self.attr.stream_buf_size:
            self.errors.stream_size_over += 1
            raise self.error(
                "ILLEGAL_PARAM",
                f"the packet has {stream.len} bytes, the stream buffer {self.attr.stream_buf_size}",
                "create the channel with a larger stream_buf_size",
            )
        if stream.need_display:
            self._check_output(picture)
        return Packet(stream, picture, self.memory.read(stream.addr, stream.len))

    def _check_output(self, asked: Fields) -> None:
        """What can be said before the picture is decoded; the rest is checked when it is written."""
        if asked.pixel_format != c.HI_PIXEL_FORMAT_UNKNOWN or not self.is_jpeg:
            pixel_format(asked.pixel_format)
        self.memory.reach(asked.vir_addr, max(1, asked.buffer_size), True)
        if asked.offset_top or asked.offset_bottom or asked.offset_left or asked.offset_right:
            self.tell("offset_top, offset_bottom, offset_left and offset_right of the picture info have no effect")

    # ---- the worker -------------------------------------------------------------------------------------------------

    def may_work(self) -> bool:
        return len(self.results) < _MAX_RESULTS

    def work(self, item: Packet) -> list[Frame]:
        with self.changed:
            self.left_bytes -= item.size
            old, self._engine_is_old = self._engine_is_old, False
            self.changed.notify_all()
        if old:
            self.engine.close()
            self.engine = _engine(self)
        frames = self.engine.decode(item) if item.size else []
        item.data = b""
        if item.stream.end_of_stream:
            frames += self.engine.flush()
        return frames

    def failed(self, item: Packet, error: Exception) -> list[Frame]:
        item.data = b""
        return [Frame(item, FAILED, reason=failure("vdec", error).text, trouble="pack_err")] if item.size else []

    def add_results(self, frames: list[Frame]) -> None:
        for frame in frames:
            frame.number = self.decoded
            self.decoded += 1
            if frame.stream_size != (0, 0):
                self.stream_size = frame.stream_size
            if frame.flag == GOOD:
                self.latest_pts = frame.packet.stream.pts
            if frame.trouble:
                setattr(self.errors, frame.trouble, getattr(self.errors, frame.trouble) + 1)
            if frame.flag == FAILED:
                self.complain(f"a packet could not be decoded: {frame.reason}")
        super().add_results(frames)

    # ---- getting ----------------------------------------------------------------------------------------------------

    def get(self, ms: int) -> Frame:
        """`vdec_get_frame`."""
        with self.changed:
            self.need_open()
            if not self.wait_until(lambda: bool(self.results), ms):
                raise self.error("BUF_EMPTY", "no frame is ready", "wait longer, or send more packets")
            frame: Frame = self.results.popleft()
            self.released[frame.packet.picture.vir_addr] += 1
            if self.released.total() > _MANY_UNRELEASED:
                self.tell("more than 64 frames were never given to vdec_release_frame; hardware would stop by now")
            self.settle()
        if frame.flag == FAILED:  # the call succeeds: this is how get_recent_err_msg can tell why there is no picture
            recent.note("the packet of acl.himpi.vdec_get_frame", self.error("ILLEGAL_PARAM", frame.reason, ""))
        return frame

    def release(self, info: Fields) -> None:
        """`vdec_release_frame`: the memory is the program's and may be freed already."""
        address = info.v_frame.virt_addr[0]
        with self.changed:
            if not self.released[address]:
                del self.released[address]
                raise self.error(
                    "ILLEGAL_PARAM",
                    f"no frame with the output address {address:#x} is out",
                    "release each frame of vdec_get_frame once, as it came",
                )
            self.released[address] -= 1
            if not self.released[address]:
                del self.released[address]

    # ---- settings ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """`vdec_start_recv_stream`."""
        with self.changed:
            self.need_open()
            self.started = True

    def stop(self) -> None:
        """`vdec_stop_recv_stream`: what was sent is decoded to its end and can still be taken."""
        with self.changed:
            self.need_open()
            self.started = False
            if self._has_stream:
                self._has_stream = False
                end = structs.STREAM.blank()
                end.end_of_stream = 1
                self.put(Packet(end, structs.PIC_INFO.blank(), b""))
            self.changed.notify_all()

    def reset(self) -> None:
        """`vdec_reset_chn`: everything that was sent and not taken is dropped."""
        self.need_stopped()
        self.drop_all()
        with self.changed:
            self._engine_is_old = True
            self.released.clear()
            self.received = self.decoded = self.left_bytes = self.latest_pts = 0
            self.errors = structs.STATUS.blank().dec_err

    def need_stopped(self) -> None:
        """Raise while the channel takes packets."""
        if self.started:
            raise self.error(
                "NOT_PERM", "it takes packets now", "do this before vdec_start_recv_stream, or stop it first"
            )

    def set_attr(self, attr: Fields) -> None:
        """`vdec_set_chn_attr`."""
        self.need_stopped()
        if attr.type != self.attr.type:
            raise self.error(
                "ILLEGAL_PARAM",
                f"the type cannot change from {self.attr.type} to {attr.type}",
                "create another channel",
            )
        check_attr(attr)
        self.attr = attr

    def set_param(self, param: Fields) -> None:
        """`vdec_set_chn_param`."""
        self.need_stopped()
        self._check_type(param.type)
        check_param(param, self.is_jpeg)
        if param.video_param.composite_dec_en or param.video_param.slice_input_en:
            self.tell("composite_dec_en and slice_input_en have no effect: a packet is a whole access unit")
        video = param.video_param
        if video.err_threshold or video.compress_mode or video.video_format or video.quick_mark_mode:
            self.tell(
                "err_threshold, compress_mode, video_format and quick_mark_mode have no effect: pictures are linear and whole"
            )
        if self.is_jpeg and param.pic_param.pixel_format:
            self.tell("pic_param has no effect: the picture info of a packet says which format its picture gets")
        param.type = self.attr.type
        with self.changed:
            self.param = param
            self._engine_is_old = True

    def set_protocol(self, param: Fields) -> None:
        """`vdec_set_protocol_param`: kept and handed out; nothing here is limited by it."""
        self.need_stopped()
        self._check_type(param.type)
        param.type = self.attr.type
        self.protocol = param

    def set_precision(self, mode: int) -> None:
        """`vdec_set_jpegd_precision_mode`."""
        if not self.is_jpeg:
            raise self.error("NOT_SUPPORT", "it is no JPEGD channel", "this setting is for JPEG only")
        self.need_stopped()
        check_in("precision mode", mode, range(3))
        self.precision = mode

    def set_display_mode(self, mode: int) -> None:
        """`vdec_set_display_mode`: 0 preview, 1 playback. Kept and handed out; frames come when they are decoded."""
        check_in("display mode", mode, range(2))
        self.display_mode = mode

    def _check_type(self, payload: int) -> None:
        if payload not in (0, self.attr.type):
            raise self.error(
                "ILLEGAL_PARAM", f"the type is {payload}, the channel's {self.attr.type}", "pass the channel's"
            )

    def status(self) -> Fields:
        """`vdec_query_status`."""
        status = structs.STATUS.blank()
        with self.changed:
            status.type = self.attr.type
            status.left_stream_bytes = self.left_bytes
            inside = [*self.waiting, *([self.current] if self.working else [])]
            status.left_stream_frames = sum(packet.size > 0 for packet in inside)
            status.left_decoded_frames = len(self.results)
            status.is_started = int(self.started)
            status.recv_stream_frames = self.received
            status.dec_stream_frames = self.decoded
            status.dec_err = self.errors
            status.width, status.height = self.stream_size
            status.latest_frame_pts = self.latest_pts
        return status

    def finish(self) -> None:
        self.engine.close()


def _engine(channel: DecodeChannel) -> Engine:
    return JpegEngine(channel) if channel.is_jpeg else VideoEngine(channel)
