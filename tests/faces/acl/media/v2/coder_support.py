"""What the tests of the decode and encode channels of acl.himpi share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import acl
from tests.faces.acl.media.v2.support import Array, fetch, put
from tests.support import WAIT, ok

H264, H265, JPEG, PNG = 96, 265, 26, 268
PAYLOAD = {"h264": H264, "hevc": H265}
VDEC, VENC = 0xA0058000, 0xA0088000
NV12, NV21, RGB, UNKNOWN = 1, 2, 12, 10000
LIMIT_MS = int(WAIT * 1000)
Dict = dict[str, Any]


def channel_attr(payload: int, width: int, height: int, **more: Any) -> Dict:
    """Attributes of a decode channel."""
    return {
        "type": payload, "mode": 1, "pic_width": width, "pic_height": height, "stream_buf_size": width * height * 3,
        "frame_buf_size": 0, "frame_buf_cnt": 9, "video_attr": {"ref_frame_num": 4}, **more,
    }  # fmt: skip


def open_decoder(chn: int, payload: int, width: int, height: int, param: Dict | None = None, **more: Any) -> None:
    """A decode channel that takes packets. `param` changes its video parameters."""
    ok(acl.himpi.vdec_create_chn(chn, channel_attr(payload, width, height, **more)))
    if param is not None:
        values = ok(acl.himpi.vdec_get_chn_param(chn))
        values["video_param"].update(param)
        ok(acl.himpi.vdec_set_chn_param(chn, values))
    ok(acl.himpi.vdec_start_recv_stream(chn))


def packet(data: bytes, pts: int = 0, **more: Any) -> Dict:
    """A packet in media memory."""
    address = put(np.frombuffer(data, np.uint8)) if data else 0
    return {
        "end_of_frame": 1, "end_of_stream": 0, "need_display": 1, "pts": pts, "private_data": 0, "len": len(data),
        "addr": address, **more,
    }  # fmt: skip


def output(size: int, **more: Any) -> Dict:
    """Memory for a decoded picture."""
    return {"pixel_format": NV12, "vir_addr": ok(acl.himpi.dvpp_malloc(0, size)), "buffer_size": size, **more}


def send(chn: int, data: bytes, size: int, pts: int = 0, ms: int = LIMIT_MS, **more: Any) -> int:
    """Send a packet with an output of `size` bytes; the code. Refused memory is freed."""
    stream, picture = packet(data, pts), output(size, **more)
    ret = acl.himpi.vdec_send_stream(chn, stream, picture, ms)
    if ret:
        ok(acl.himpi.dvpp_free(stream["addr"]))
        ok(acl.himpi.dvpp_free(picture["vir_addr"]))
    return int(ret)


def flush(chn: int) -> None:
    """End the stream."""
    ok(acl.himpi.vdec_send_stream(chn, {"end_of_stream": 1}, {}, LIMIT_MS))


class Got:
    """A frame of vdec_get_frame. Its memory was read and freed."""

    def __init__(self, chn: int, ms: int = LIMIT_MS, keep: bool = False) -> None:
        self.info, self.supplement, self.stream, ret = acl.himpi.vdec_get_frame(chn, ms)
        assert ret == 0, hex(ret)
        self.frame = self.info["v_frame"]
        self.flag, self.pts = self.frame["frame_flag"], self.frame["pts"]
        self.address = self.frame["virt_addr"][0]
        self.data = b""
        if self.address and self.flag == 0 and self.frame["width"]:
            self.data = fetch(self.address, self._size()).tobytes()
        if not keep:
            for address in {self.address, self.stream["addr"]} - {0}:
                ok(acl.himpi.dvpp_free(address))
        ok(acl.himpi.vdec_release_frame(chn, self.info))

    def _size(self) -> int:
        strides, rows = self.frame["width_stride"], self.frame["height_stride"]
        return sum(stride * count for stride, count in zip(strides, rows, strict=True))

    def nv12(self) -> Array:
        """Its pixels without padding, as FFmpeg writes nv12."""
        width, height, stride = self.frame["width"], self.frame["height"], self.frame["width_stride"][0]
        rows = self.frame["height_stride"][0]
        whole = np.frombuffer(self.data, np.uint8).reshape(-1, stride)
        return np.concatenate([whole[:height, :width], whole[rows : rows + height // 2, :width]])


def blocked(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A call that waits, in a thread of its own, and where its answer will be."""
    answers: list[Any] = []
    context = ok(acl.rt.get_context())

    def run() -> None:
        ok(acl.rt.set_context(context))
        answers.append(function())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, answers


def woken(thread: threading.Thread) -> None:
    """The call must end now."""
    thread.join(WAIT)
    assert not thread.is_alive(), "the call still waits"


def used() -> int:
    """Bytes of device memory in use."""
    free, total = ok(acl.rt.get_mem_info(1))
    return int(total - free)


# ---- encoding --------------------------------------------------------------------------------------------------------


def rate_control(codec: str, kind: str = "vbr", **more: Any) -> Dict:
    """rc_attr of a mode."""
    modes = ("cbr", "vbr", "avbr", "qvbr", "cvbr", "fixqp", "qpmap")
    rates = {"cbr": "bit_rate", "qvbr": "target_bit_rate"}
    values = {"gop": 10, "stats_time": 1, "src_frame_rate": 30, "dst_frame_rate": 30}
    if kind == "fixqp":
        values |= {"i_qp": 22, "p_qp": 25, "b_qp": 25}
    else:
        values[rates.get(kind, "max_bit_rate")] = 4000
    base = {"h264": 1, "h265": 11}[codec]
    return {"rc_mode": base + modes.index(kind), f"{codec}_{kind}": values | more}


def encode_attr(codec: str, width: int, height: int, rc: Dict | None = None, **more: Any) -> Dict:
    """Attributes of an encode channel for h264, h265 or jpeg."""
    venc = {
        "type": {"h264": H264, "h265": H265, "jpeg": JPEG}[codec], "profile": 0, "max_pic_width": width, "pic_width": width,
        "max_pic_height": height, "pic_height": height, "buf_size": 1 << 21, "is_by_frame": 1, **more,
    }  # fmt: skip
    if codec == "jpeg":
        return {"venc_attr": venc}
    gop = {"gop_mode": 0, "normal_p": {"ip_qp_delta": 3}}
    return {"venc_attr": venc, "rc_attr": rc or rate_control(codec), "gop_attr": gop}


def open_encoder(chn: int, codec: str, width: int, height: int, rc: Dict | None = None, **more: Any) -> None:
    """An encode channel that takes pictures."""
    ok(acl.himpi.venc_create_chn(chn, encode_attr(codec, width, height, rc, **more)))
    ok(acl.himpi.venc_start_chn(chn, {"recv_pic_num": -1}))


def frame_of(address: int, width: int, height: int, form: int = NV12, pts: int = 0, **more: Any) -> Dict:
    """The description of a picture in memory, as the manual writes it."""
    stride = width * 2 if form in (7, 8, 9, 10) else width
    shown = {
        "width": width, "height": height, "field": 4, "pixel_format": form, "video_format": 0, "compress_mode": 0,
        "dynamic_range": 0, "color_gamut": 1, "header_stride": [0, 0, 0], "width_stride": [stride, 0, 0],
        "height_stride": [0, 0, 0], "header_phys_addr": [0, 0, 0], "phys_addr": [0, 0, 0], "header_virt_addr": [0, 0, 0],
        "virt_addr": [address, 0, 0], "time_ref": 0, "pts": pts, **more,
    }  # fmt: skip
    return {"v_frame": shown, "pool_id": 0, "mod_id": 8}


def take(chn: int, ms: int = LIMIT_MS, count: int = 16) -> tuple[Dict, list[bytes]]:
    """A stream and the bytes of its packets; it is released."""
    stream = ok(acl.himpi.venc_get_stream(chn, {"pack_cnt": count}, ms))
    data = [fetch(pack["addr"] + pack["offset"], pack["len"] - pack["offset"]).tobytes() for pack in stream["pack"]]
    ok(acl.himpi.venc_release_stream(chn, stream))
    return stream, data
