"""Mixed media channels of both interfaces at once for so many seconds: memory, descriptors, threads and handles stay flat.

`media_soak.py SECONDS`. Each worker opens its channels, uses them, closes them and begins again; one looks at the process.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

import acl
from softnpu.runtime.process import process
from tests.robustness.media_damage import NV12, Pictures, Video, ok, resident

failures: list[str] = []
counts: dict[str, int] = {}
WIDTH, HEIGHT = 320, 240
SIZE = WIDTH * HEIGHT * 3 // 2
H264, SEND_FRAME, H264_VBR = 96, 1, 2


def images(kind: str) -> None:
    """JPEG or PNG files, good ones."""
    pictures = Pictures(kind)
    for _ in range(20):
        assert pictures.decode(pictures.good) == pictures.expected
    ok(acl.media.dvpp_destroy_channel(pictures.channel))
    ok(acl.media.dvpp_destroy_channel_desc(pictures.channel))
    ok(acl.rt.destroy_stream(pictures.stream))
    for address in (pictures.input, pictures.output):
        ok(acl.media.dvpp_free(address))


def v1_video() -> None:
    """A stream decoded a few times."""
    video = Video("h264")
    for _ in range(5):
        assert video.decode(video.good) == video.expected
    ok(acl.media.vdec_destroy_channel(video.desc))
    ok(acl.media.vdec_destroy_channel_desc(video.desc))
    ok(acl.media.vdec_destroy_frame_config(video.config))
    video.running = False
    ok(acl.util.stop_thread(video.thread))
    for address in (video.input, *video.outputs):
        ok(acl.media.dvpp_free(address))


def v2_pictures(channel: int) -> None:
    """Resizes and crops."""
    ok(acl.himpi.vpc_create_chn(channel, {"attr": 0}))
    source, target = ok(acl.himpi.dvpp_malloc(0, SIZE)), ok(acl.himpi.dvpp_malloc(0, SIZE))
    picture = {"picture_address": source, "picture_buffer_size": SIZE, "picture_width": WIDTH, "picture_height": HEIGHT, "picture_width_stride": WIDTH, "picture_height_stride": HEIGHT, "picture_format": NV12}  # fmt: skip
    small = {**picture, "picture_address": target, "picture_width": 160, "picture_height": 120, "picture_width_stride": 160, "picture_height_stride": 120}  # fmt: skip
    for _ in range(50):
        task = ok(acl.himpi.vpc_resize(channel, picture, small, 0, 0, 0, -1))
        ok(acl.himpi.vpc_get_process_result(channel, task, -1))
    ok(acl.himpi.vpc_destroy_chn(channel))
    for address in (source, target):
        ok(acl.himpi.dvpp_free(address))


def v2_video(channel: int) -> None:
    """Pictures encoded, and what comes out decoded again."""
    packets = encode(channel)
    attr = {"type": H264, "mode": SEND_FRAME, "pic_width": WIDTH, "pic_height": HEIGHT, "stream_buf_size": SIZE, "frame_buf_cnt": 8}  # fmt: skip
    ok(acl.himpi.vdec_create_chn(channel, attr))
    ok(acl.himpi.vdec_start_recv_stream(channel))
    for number, data in enumerate(packets):
        address, output = ok(acl.himpi.dvpp_malloc(0, len(data))), ok(acl.himpi.dvpp_malloc(0, SIZE))
        ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
        stream = {"end_of_frame": 1, "need_display": 1, "pts": number, "len": len(data), "addr": address}
        info = {"width": WIDTH, "height": HEIGHT, "width_stride": WIDTH, "height_stride": HEIGHT, "pixel_format": NV12, "vir_addr": output, "buffer_size": SIZE}  # fmt: skip
        ok(acl.himpi.vdec_send_stream(channel, stream, info, -1))
    ok(acl.himpi.vdec_send_stream(channel, {"end_of_stream": 1}, {}, -1))
    for _ in packets:
        frame, _, sent, ret = acl.himpi.vdec_get_frame(channel, 5000)
        assert ret == 0 and frame["v_frame"]["frame_flag"] == 0, (ret, frame)
        ok(acl.himpi.vdec_release_frame(channel, frame))
        ok(acl.himpi.dvpp_free(frame["v_frame"]["virt_addr"][0]))
        ok(acl.himpi.dvpp_free(sent["addr"]))
    ok(acl.himpi.vdec_stop_recv_stream(channel))
    ok(acl.himpi.vdec_destroy_chn(channel))


def encode(channel: int) -> list[bytes]:
    """Ten pictures as packets."""
    attr = {
        "venc_attr": {"type": H264, "profile": 1, "max_pic_width": WIDTH, "pic_width": WIDTH, "max_pic_height": HEIGHT, "pic_height": HEIGHT, "buf_size": 2 << 20, "is_by_frame": 1},
        "rc_attr": {"rc_mode": H264_VBR, "h264_vbr": {"gop": 5, "stats_time": 1, "src_frame_rate": 30, "dst_frame_rate": 30, "max_bit_rate": 2000}},
        "gop_attr": {"gop_mode": 0, "normal_p": {"ip_qp_delta": 3}},
    }  # fmt: skip
    ok(acl.himpi.venc_create_chn(channel, attr))
    ok(acl.himpi.venc_start_chn(channel, {"recv_pic_num": -1}))
    address = ok(acl.himpi.dvpp_malloc(0, SIZE))
    packets = []
    for number in range(10):
        pixels = np.roll(np.tile(np.arange(WIDTH, dtype=np.uint8), HEIGHT * 3 // 2), 3 * number).tobytes()
        ok(acl.rt.memcpy(address, SIZE, acl.util.bytes_to_ptr(pixels), SIZE, 1))
        frame = {"width": WIDTH, "height": HEIGHT, "pixel_format": NV12, "width_stride": [WIDTH, 0, 0], "virt_addr": [address, 0, 0], "pts": number}  # fmt: skip
        ok(acl.himpi.venc_send_frame(channel, {"v_frame": frame}, 1000))
        stream = ok(acl.himpi.venc_get_stream(channel, {"pack_cnt": 8}, 5000))
        packets.append(b"".join(acl.util.ptr_to_bytes(pack["addr"] + pack["offset"], pack["len"] - pack["offset"]) for pack in stream["pack"]))  # fmt: skip
        ok(acl.himpi.venc_release_stream(channel, stream))
    ok(acl.himpi.venc_stop_chn(channel))
    ok(acl.himpi.venc_destroy_chn(channel))
    ok(acl.himpi.dvpp_free(address))
    return packets


def worker(name: str, work: Callable[[], None], context: int, end: float) -> None:
    """Do it again and again."""
    ok(acl.rt.set_context(context))
    try:
        while time.monotonic() < end and not failures:
            work()
            counts[name] = counts.get(name, 0) + 1
    except BaseException as error:
        failures.append(f"{name}: {type(error).__name__}: {error}")
        raise


def figures() -> dict[str, int]:
    """What must not grow."""
    gc.collect()
    owner = process()
    return {"MiB": resident(), "descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(), "handles": len(owner.handles), "device bytes": owner.devices[0].used}  # fmt: skip


def main() -> None:
    seconds = float(sys.argv[1])
    ok(acl.init())
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.create_context(0))
    ok(acl.himpi.sys_init())
    works: dict[str, Callable[[], None]] = {
        "jpeg": lambda: images("jpeg"),
        "png": lambda: images("png"),
        "v1 video": v1_video,
        "v2 pictures": lambda: v2_pictures(1),
        "v2 video": lambda: v2_video(2),
    }

    def round_of(duration: float) -> dict[str, int]:
        end = time.monotonic() + duration
        threads = [threading.Thread(target=worker, args=(name, work, context, end)) for name, work in works.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        time.sleep(0.2)
        return figures()

    before = round_of(seconds / 3)
    after = round_of(seconds * 2 / 3)
    print(counts, before, after)
    for what, least in {"MiB": 24, "descriptors": 0, "threads": 6, "handles": 0, "device bytes": 0}.items():
        assert after[what] <= before[what] + least, f"{what} grew from {before[what]} to {after[what]}"
    print("flat")


if __name__ == "__main__":
    main()
