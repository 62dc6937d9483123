"""Encode a picture n times as an H.265 stream (pyACL guide, 9.5.2.7).

Each encoded picture is taken in a callback and appended to a file. The stream is decoded again with PyAV and compared.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import av
import numpy as np

import acl

sys.path.append(str(Path(__file__).parents[1]))
from common import check, device
from media_common import NV12, Picture, download
from vpc_jpege import nv12

WIDTH = HEIGHT = 128
H265_MAIN_LEVEL, KEY_FRAME_INTERVAL = 0, 16


class Venc:
    """An encoding channel whose results are taken in a thread of the program."""

    def __init__(self, context: int, file: Path) -> None:
        self.context, self.running, self.file = context, True, file
        file.write_bytes(b"")
        self.thread = check(acl.util.start_thread(self._thread, [1000]))
        self.channel = acl.media.venc_create_channel_desc()
        settings = {"thread_id": self.thread, "callback": self._callback, "entype": H265_MAIN_LEVEL}
        settings |= {"pic_format": NV12, "pic_width": WIDTH, "pic_height": HEIGHT}
        settings |= {"key_frame_interval": KEY_FRAME_INTERVAL}
        for name, value in settings.items():
            check(getattr(acl.media, f"venc_set_channel_desc_{name}")(self.channel, value))
        check(acl.media.venc_create_channel(self.channel))
        self.frame = acl.media.venc_create_frame_config()

    def _thread(self, args: list[int]) -> None:
        check(acl.rt.set_context(self.context))
        while self.running:
            acl.rt.process_report(args[0])

    def _callback(self, _pic_desc: int, stream_desc: int, _user_data: object) -> None:
        size = acl.media.dvpp_get_stream_desc_size(stream_desc)
        print(f"[INFO] [venc] stream_data size {size}")
        with self.file.open("ab") as out:
            out.write(download(acl.media.dvpp_get_stream_desc_data(stream_desc), size))

    def send(self, picture: Picture | None) -> None:
        """A picture; None ends the stream."""
        check(acl.media.venc_set_frame_config_eos(self.frame, 0 if picture else 1))
        check(acl.media.venc_set_frame_config_force_i_frame(self.frame, 0))
        check(acl.media.venc_send_frame(self.channel, picture.desc if picture else 0, 0, self.frame, None))

    def finish(self) -> None:
        """Wait for everything and close the channel."""
        self.send(None)
        check(acl.media.venc_destroy_channel(self.channel))
        check(acl.media.venc_destroy_channel_desc(self.channel))
        check(acl.media.venc_destroy_frame_config(self.frame))
        self.running = False
        check(acl.util.stop_thread(self.thread))


def check_stream(file: Path, count: int, pixels: np.ndarray) -> None:
    """The stream holds so many pictures, and they look like the one that was sent."""
    with av.open(str(file), format="hevc") as container:
        frames = list(container.decode(video=0))
    keys = [index for index, frame in enumerate(frames) if frame.key_frame]
    error = np.mean([(frame.reformat(format="nv12").to_ndarray().astype(float) - pixels) ** 2 for frame in frames])
    quality = 10 * np.log10(255**2 / max(error, 1e-9))
    print(f"{len(frames)} pictures of {frames[0].width}x{frames[0].height}, key frames {keys}, PSNR {quality:.1f} dB")
    if len(frames) != count or quality < 30:
        sys.exit("that is not what was sent")


def main() -> None:
    """Send one picture n times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venc_cnt", type=int, default=16, help="how often")
    parser.add_argument("--output", type=Path, default=Path("output.h265"))
    args = parser.parse_args()
    pixels = nv12(WIDTH, HEIGHT)
    with device() as context:
        venc = Venc(context, args.output)
        picture = Picture(WIDTH, HEIGHT)
        picture.write(pixels.tobytes())
        for _ in range(args.venc_cnt):
            venc.send(picture)
        picture.destroy()
        print("[INFO] venc send frame eos")
        venc.finish()
    check_stream(args.output, args.venc_cnt, pixels)


if __name__ == "__main__":
    main()
