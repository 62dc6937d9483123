"""Decode a video, scale and classify its pictures (pyACL guide, 9.5.2.4): VDEC, VPC, AIPP, ResNet-50 in device memory.

The guide's sample sends one H.265 picture ten times and takes each result in a callback; so does this one. The stream is made
here with PyAV. Every decoded picture is compared with FFmpeg's, the scores with onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import av
import cv2
import numpy as np

import acl

sys.path.append(str(Path(__file__).parents[1]))
import models
from common import check, compare, device, work_folder
from media_common import NV12, Dvpp, Picture, on_device
from resnet import SIDE, Classifier, expected_input, make, print_top_5

WIDTH, HEIGHT, COUNT = 1280, 720, 10
H265_MAIN_LEVEL = 0


def one_frame() -> bytes:
    """An H.265 stream of one picture."""
    codec = av.CodecContext.create("libx265", "w")
    codec.width, codec.height, codec.pix_fmt, codec.framerate = WIDTH, HEIGHT, "yuv420p", 25
    codec.options = {"x265-params": "log-level=none", "preset": "ultrafast"}
    frame = av.VideoFrame.from_ndarray(models.picture(WIDTH, HEIGHT, 4), "rgb24").reformat(format="yuv420p")
    return b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])


def expected(stream: bytes) -> np.ndarray:
    """FFmpeg's picture as NV12."""
    codec = av.CodecContext.create("hevc", "r")
    frames = [*codec.decode(av.Packet(stream)), *codec.decode(None)]
    return frames[0].reformat(format="nv12").to_ndarray()


class Vdec:
    """A decoding channel whose results are taken in a thread of the program."""

    def __init__(self, context: int) -> None:
        self.context, self.running, self.pictures = context, True, []
        self.thread = check(acl.util.start_thread(self._thread, [100]))
        self.channel = acl.media.vdec_create_channel_desc()
        settings = {"channel_id": 10, "thread_id": self.thread, "callback": self._callback}
        settings |= {"entype": H265_MAIN_LEVEL, "out_pic_format": NV12}
        for name, value in settings.items():
            check(getattr(acl.media, f"vdec_set_channel_desc_{name}")(self.channel, value))
        check(acl.media.vdec_create_channel(self.channel))

    def _thread(self, args: list[int]) -> None:
        check(acl.rt.set_context(self.context))
        while self.running:
            acl.rt.process_report(args[0])

    def _callback(self, stream_desc: int, pic_desc: int, picture: Picture) -> None:
        check(acl.media.dvpp_destroy_stream_desc(stream_desc))
        if acl.media.dvpp_get_pic_desc_ret_code(pic_desc) == 0:
            self.pictures.append(picture)
        print("[Vdec] [_callback] _callback exit success")

    def send(self, address: int, size: int, picture: Picture) -> None:
        """One packet, and where its picture goes."""
        desc = acl.media.dvpp_create_stream_desc()
        for name, value in {"data": address, "size": size, "format": H265_MAIN_LEVEL}.items():
            check(getattr(acl.media, f"dvpp_set_stream_desc_{name}")(desc, value))
        settings = acl.media.vdec_create_frame_config()
        check(acl.media.vdec_send_frame(self.channel, desc, picture.desc, settings, picture))
        check(acl.media.vdec_destroy_frame_config(settings))

    def finish(self) -> list[Picture]:
        """Wait for everything, close the channel; the pictures."""
        check(acl.media.vdec_destroy_channel(self.channel))
        check(acl.media.vdec_destroy_channel_desc(self.channel))
        self.running = False
        check(acl.util.stop_thread(self.thread))
        return self.pictures


def main() -> None:
    """Ten pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer; 64 is the real ResNet-50")
    args = parser.parse_args()
    stream = one_frame()
    with work_folder() as folder:
        original, path = make(folder, args.width)
        with device() as context:
            vdec = Vdec(context)
            with on_device(stream) as address:
                for index in range(COUNT):
                    print(f"[Vdec] forward index:{index}")
                    vdec.send(address, len(stream), Picture(WIDTH, HEIGHT))
                pictures = vdec.finish()
            print("[Vdec] vdec finish!!!\n")
            classify(original, path, pictures, expected(stream))
    print("[Sample] release source stage success")


def classify(original, path, pictures: list[Picture], reference: np.ndarray) -> None:
    """Scale each picture and run the model on it."""
    if len(pictures) != COUNT:
        sys.exit(f"{len(pictures)} pictures came out of {COUNT} packets")
    dvpp, classifier = Dvpp(), Classifier(path)
    for picture in pictures:
        if not np.array_equal(picture.rows(), reference):
            sys.exit("a decoded picture differs from FFmpeg's")
        small = dvpp.resize(picture, SIDE, SIDE)
        scores = classifier.run(small)
        small_pixels = small.rows()
        small.destroy()
        picture.destroy()
    if np.abs(small_pixels[:SIDE].astype(int) - cv2.resize(reference[:HEIGHT], (SIDE, SIDE))).max() > 1:
        sys.exit("the scaled picture differs from OpenCV's")
    print_top_5(scores)
    print(f"all {COUNT} pictures are equal to FFmpeg's")
    compare("scores", scores, models.reference(original, actual_input_1=expected_input(small_pixels)))
    classifier.release()
    dvpp.release()


if __name__ == "__main__":
    main()
