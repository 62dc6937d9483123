"""An encode channel of `acl.himpi`: pictures in, packets out. What encodes (video, JPEG) is its engine."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.recent import recent
from softnpu.media.pixels.picture import Region
from softnpu.media.v2.coder import Coder
from softnpu.media.v2.errors import failure
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc import pictures, structs
from softnpu.media.v2.venc.checks import VIDEO, check_attr
from softnpu.media.v2.venc.frames import Coded, Engine, Job
from softnpu.media.v2.venc.jpege import JpegEngine
from softnpu.media.v2.venc.packs import Store, Unit
from softnpu.media.v2.venc.settings import Settings
from softnpu.media.v2.venc.video import VideoEngine

_MAX_WAITING = 64
_MAX_WAITING_BYTES = 256 << 20
_ALWAYS = 2  # so many pictures may wait however large they are


class EncodeChannel(Coder):
    """A channel of VENC or JPEGE, from `venc_create_chn` to `venc_destroy_chn`."""

    module = "venc"

    def __init__(self, number: int, attr: Fields, one_packet: bool) -> None:
        super().__init__(number)
        check_attr(attr)
        self.attr = attr
        self.one_packet = one_packet
        self.settings = Settings(self)
        self.store = Store(self.device, self.memory)
        self.engine = _engine(self)
        self.left_to_receive = -1
        self.waiting_bytes = 0
        self.received = self.encoded = self.units = self.packets = 0
        self.last_bytes = self.released_pts = 0
        self._idr = False

    @property
    def is_jpeg(self) -> bool:
        """Whether it is a channel of JPEGE."""
        return self.attr.venc_attr.type not in VIDEO

    # ---- sending ----------------------------------------------------------------------------------------------------

    def start(self, count: int) -> None:
        """`venc_start_chn`."""
        if count < -1 or count == 0:
            raise self.error(
                "ILLEGAL_PARAM", f"recv_pic_num is {count}", "-1 takes any number of pictures, else 1 or more"
            )
        with self.changed:
            self.need_open()
            self.started = True
            self.left_to_receive = count

    def stop(self) -> None:
        """`venc_stop_chn`: pictures that were sent are still encoded."""
        with self.changed:
            self.need_open()
            self.started = False
            self.changed.notify_all()

    def send(self, frame: Fields, ms: int, key: bool = False, target: tuple[int, int] | None = None) -> None:
        """`venc_send_frame` and its relatives: the picture is copied here."""
        self._check_owner(target)
        with self.changed:
            self._need_started()
        job = self._job(frame, key, target)
        with self.changed:
            room = self.wait_until(lambda: not self.started or self._has_room(), ms)
            self._need_started()
            if not room:
                raise self._full()
            self.received += 1
            if self.left_to_receive > 0:
                self.left_to_receive -= 1
            if self._is_dropped():
                self.released_pts = job.pts
                return
            job.key = job.key or self._idr
            self.put(job)
            self._idr = False
            self.waiting_bytes += job.size

    def _check_owner(self, target: tuple[int, int] | None) -> None:
        if self.attr.venc_attr.buf_size and target is not None:
            raise self.error(
                "NOT_SUPPORT",
                "it has a stream buffer of its own",
                "for venc_send_jpege_frame create it with buf_size 0",
            )
        if not self.attr.venc_attr.buf_size and target is None:
            raise self.error(
                "NOT_SUPPORT",
                "it has no stream buffer (buf_size 0)",
                "use venc_send_jpege_frame, or create it with a buf_size",
            )

    def _need_started(self) -> None:
        self.need_open()
        if not self.started:
            raise self.error("NOT_PERM", "it does not take pictures now", "call venc_start_chn first")
        if self.left_to_receive == 0:
            raise self.error("NOT_PERM", "it has got all pictures of recv_pic_num", "call venc_start_chn again")

    def _has_room(self) -> bool:
        count = len(self.waiting)
        return count < _ALWAYS or (count < _MAX_WAITING and self.waiting_bytes < _MAX_WAITING_BYTES)

    def _full(self) -> Exception:
        stuck = "" if self.may_work() else f"; the stream buffer is full ({self.store.used} bytes): release streams"
        return self.error("NO_BUF", f"{len(self.waiting)} pictures wait{stuck}", "take streams, then send again")

    def _job(self, frame: Fields, key: bool, target: tuple[int, int] | None) -> Job:
        picture = pictures.describe(frame, self.engine.name)
        param = self.settings.values["chn_param"]
        rect = param.crop_info.rect
        crop = Region(rect.x, rect.y, rect.width, rect.height) if param.crop_info.enable else None
        self._check_size(*((crop.width, crop.height) if crop else (picture.width, picture.height)))
        if target is not None:
            self.memory.reach(target[0], max(1, target[1]), True)
        pixels = pictures.snapshot(frame, picture, self.memory, crop, bool(param.color_to_grey_en))
        return Job(pixels, frame.v_frame.pts, picture.address, key, target)

    def _check_size(self, width: int, height: int) -> None:
        venc = self.attr.venc_attr
        if self.is_jpeg:
            fits = 0 < width <= venc.max_pic_width and 0 < height <= venc.max_pic_height
        else:
            fits = (width, height) == (venc.pic_width, venc.pic_height)
        if not fits:
            raise self.error(
                "ILLEGAL_PARAM",
                f"the picture is {width}x{height}, the channel {venc.pic_width}x{venc.pic_height}",
                "video wants the size of the channel, JPEG at most its maximum",
            )

    def _is_dropped(self) -> bool:
        """Whether the target frame rate leaves the picture out that was received last."""
        source, target = self.settings.frame_rates()
        return (self.received - 1) * target % source >= target

    def request_idr(self) -> None:
        """`venc_request_idr`: the next picture that is sent becomes a key frame."""
        if self.is_jpeg:
            raise self.error("NOT_SUPPORT", "JPEG has no key frames", "")
        with self.changed:
            self.need_open()
            self._idr = True

    # ---- the worker -------------------------------------------------------------------------------------------------

    def may_work(self) -> bool:
        count = self.settings.values["chn_param"].max_stream_cnt
        if count and len(self.results) >= count:
            return False
        most = self.attr.venc_attr.buf_size
        return not most or bool(self.store.used < most)

    def wakes(self) -> bool:
        return bool(len(self.results) >= max(1, self.settings.values["chn_param"].poll_wake_up_frame_cnt))

    def work(self, item: Job) -> list[Unit]:
        with self.changed:
            self.waiting_bytes -= item.size
            self.changed.notify_all()
        return [self._unit(job, coded) for job, coded in self.engine.encode(item)]

    def _unit(self, job: Job, coded: Coded) -> Unit:
        unit = Unit(job.pts, job.input_address)
        if job.target is not None:
            self._into_target(unit, *job.target, coded.data)
            return unit
        with self.changed:
            whole = self.attr.venc_attr.is_by_frame and self.one_packet
            parts = [(0, len(coded.data))] if whole else coded.pieces
            self.store.write(unit, coded.data, parts, len(coded.pieces) - 1 if whole else 0)
        return unit

    def _into_target(self, unit: Unit, address: int, room: int, data: bytes) -> None:
        if len(data) > room:
            unit.failed = f"the file has {len(data)} bytes, its output memory {room}; venc_get_jpege_predicted_size tells what is enough"
        else:
            self.memory.store(address, data)
        unit.add(address, 0 if unit.failed else len(data), True)

    def failed(self, item: Job, error: Exception) -> list[Unit]:
        unit = Unit(item.pts, item.input_address, failed=failure("venc", error).text)
        unit.add(item.target[0] if item.target else 0, 0, True)
        return [unit]

    def add_results(self, units: list[Unit]) -> None:
        for unit in units:
            unit.number = self.units
            self.units += 1
            self.encoded += not unit.failed
            self.last_bytes = unit.size
            self.released_pts = unit.pts
            if unit.failed:
                self.complain(f"a picture could not be encoded: {unit.failed}")
        super().add_results(units)

    # ---- getting ----------------------------------------------------------------------------------------------------

    def get(self, count: int, ms: int) -> tuple[int, list[Fields]]:
        """`venc_get_stream`: number and packets of the next picture, or the next packets of it."""
        with self.changed:
            self.need_open()
            if count < 1:
                raise self.error(
                    "ILLEGAL_PARAM", "pack_cnt is 0", "pass cur_packs of venc_query_status, or any larger number"
                )
            if not self.wait_until(lambda: bool(self.results), ms):
                name = "BUF_EMPTY" if ms == 0 else "TIMEOUT"
                raise self.error(name, "no encoded picture is ready", "wait longer, or send more pictures")
            unit: Unit = self.results[0]
            by_frame = self.attr.venc_attr.is_by_frame
            if by_frame and len(unit.packs) > count:
                raise self.error(
                    "ILLEGAL_PARAM",
                    f"the picture has {len(unit.packs)} packets, pack_cnt is {count}",
                    "pass cur_packs of venc_query_status",
                )
            packs = [unit.packs.popleft() for _ in range(min(count, len(unit.packs)))]
            number = unit.number if by_frame else self.packets
            self.packets += len(packs)
            if not unit.packs:
                self.results.popleft()
            self.store.hand_out(packs)
            self.settle()
        if unit.failed:  # the call succeeds: this is how get_recent_err_msg can tell why the packet is empty
            recent.note("the picture of acl.himpi.venc_get_stream", self.error("ILLEGAL_PARAM", unit.failed, ""))
        return number, packs

    def release(self, packs: list[Fields]) -> None:
        """`venc_release_stream`."""
        with self.changed:
            self.need_open()
            self.store.take_back(packs)
            self.changed.notify_all()

    def status(self) -> Fields:
        """`venc_query_status`."""
        status = structs.STATUS.blank()
        with self.changed:
            self.need_open()
            status.left_pics = len(self.waiting) + self.working
            status.left_enc_pics = status.left_pics
            status.left_stream_bytes = sum(pack.len for unit in self.results for pack in unit.packs)
            status.left_stream_frames = len(self.results)
            status.cur_packs = len(self.results[0].packs) if self.results else 0
            status.left_recv_pics = max(0, self.left_to_receive)
            status.is_jpeg_snap_end = int(self.is_jpeg and not status.left_pics)
            status.release_pic_pts = self.released_pts
            status.stream_info.pic_bytes = self.last_bytes
            status.stream_info.pic_cnt = self.encoded
        return status

    # ---- settings ---------------------------------------------------------------------------------------------------

    def set_attr(self, attr: Fields) -> None:
        """`venc_set_chn_attr`: rate control and sizes change with the next picture, which becomes a key frame."""
        check_attr(attr)
        old, new = self.attr.venc_attr, attr.venc_attr
        for name in ("type", "max_pic_width", "max_pic_height", "buf_size", "is_by_frame", "profile"):
            if getattr(old, name) != getattr(new, name):
                raise self.error(
                    "NOT_PERM",
                    f"{name} cannot change from {getattr(old, name)} to {getattr(new, name)}",
                    "create it anew",
                )
        with self.changed:
            self.need_open()
            self.attr = attr
            self.settings.tell_about(attr)
            self.settings.version += 1

    def finish(self) -> None:
        self.engine.close()
        self.store.close()


def _engine(channel: EncodeChannel) -> Engine:
    return JpegEngine(channel) if channel.attr.venc_attr.type == c.HI_PT_JPEG else VideoEngine(channel)
