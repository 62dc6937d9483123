"""Read the text of a JPEG photograph, end to end in device memory: what `make demo` runs.

JPEG → JPEGD → VPC → AIPP → the PP-OCR models. The file is decoded to NV12 in device memory (JPEGD). VPC scales it for the
detector and, when that has found the lines, cuts each of them out of the full picture, scales it and pastes it onto grey paper
of the right width, which is the reader's input. AIPP inside the models swaps the channels and normalises. No pixel comes back
to the host; only the detector's map and the reader's letters do.

The photograph is drawn here, larger than the detector wants it. `ocr_demo.py` is the same without media functions.
Needs softnpu[media], Pillow, and rapidocr_onnxruntime for its models; nothing of it is imported.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from common import check, device
from media_common import RGB888, Dvpp, Picture, region
from ocr_demo import (
    FONT_SIZE,
    GREY,
    HEIGHT,
    LINE_HEIGHT,
    LINES,
    READER,
    STEP,
    WIDTH,
    WIDTHS,
    Clock,
    Detector,
    Reader,
    characters,
    convert,
    demo,
    find_boxes,
    find_models,
)
from PIL import Image, ImageDraw, ImageFont

import acl

SCALE = 2  # the photograph is this much larger than what the detector sees
Box = tuple[int, int, int, int]


def photograph(lines: Sequence[str] = LINES) -> bytes:
    """A JPEG file: dark text on paper that is not evenly lit."""
    width, height = WIDTH * SCALE, HEIGHT * SCALE
    light = np.linspace(225, 252, width, dtype=np.float32) * np.linspace(0.97, 1.0, height, dtype=np.float32)[:, None]
    paper = np.repeat(light[..., None].astype(np.uint8), 3, axis=2)
    image = Image.fromarray(paper)
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(FONT_SIZE * SCALE)
    for number, line in enumerate(lines):
        pen.text((30 * SCALE, (20 + number * STEP) * SCALE), line, (20, 24, 60 + 20 * number), font)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=92)
    return file.getvalue()


class MediaDetector(Detector):
    """The detector, fed from device memory."""

    def find(self, dvpp: Dvpp, photo: Picture) -> list[Box]:
        """The boxes of the lines, in the photograph's own pixels."""
        small = dvpp.resize(photo, WIDTH, HEIGHT, RGB888, columns=1)
        with use_as_input(self.inputs, small):
            check(acl.mdl.execute(self.model.id, self.inputs.handle, self.outputs.handle))
        small.destroy()
        boxes = find_boxes(self.outputs.read(0, (HEIGHT, WIDTH)))
        return [tuple(side * SCALE for side in box) for box in boxes]


class MediaReader(Reader):
    """The reader, fed from device memory."""

    def read(self, dvpp: Dvpp, photo: Picture, box: Box) -> tuple[str, float]:
        """The text in a box of the photograph, and how sure the model is."""
        left, top, right, bottom = box
        wanted = round((right - left) * LINE_HEIGHT / (bottom - top))
        gear = next((width for width in WIDTHS if width >= wanted), WIDTHS[-1])
        paper = Picture(gear, LINE_HEIGHT, RGB888, columns=1)
        check(acl.rt.memset(paper.address, paper.size, GREY, paper.size))
        with (
            region(left, top, right - left, bottom - top) as line,
            region(0, 0, min(wanted, gear), LINE_HEIGHT) as target_area,
        ):
            check(
                acl.media.dvpp_vpc_crop_resize_paste_async(
                    dvpp.channel, photo.desc, paper.desc, line, target_area, dvpp.resizing, dvpp.stream
                )
            )
            dvpp.wait()
        with use_as_input(self.inputs, paper):
            check(acl.mdl.set_dynamic_hw_size(self.model.id, self.inputs.handle, self.shape_input, LINE_HEIGHT, gear))
            check(acl.mdl.execute(self.model.id, self.inputs.handle, self.outputs.handle))
        paper.destroy()
        dims = check(acl.mdl.get_cur_output_dims(self.model.desc, 0))["dims"]
        return self._decode(self.outputs.read(0, dims)[0])


def use_as_input(inputs, picture: Picture) -> ExitStack:
    """Let a picture be a model's first input for a while: the buffer points at it, nothing is copied."""
    address, size, data = inputs.buffers[0]
    check(acl.update_data_buffer(data, picture.address, picture.size))
    stack = ExitStack()
    stack.callback(lambda: check(acl.update_data_buffer(data, address, size)))
    return stack


def run(folder: Path, clock: Clock) -> tuple[np.ndarray, list[Box], list[tuple[str, float]]]:
    """The photograph, the boxes of its lines, and what they say."""
    originals = find_models()
    with clock.stage("draw the photograph"):
        jpeg = photograph()
    with clock.stage("convert two models"):
        detector_path, reader_path = convert(folder, originals)
    with device():
        with clock.stage("load two models"):
            detector, reader = MediaDetector(detector_path), MediaReader(reader_path, characters(originals / READER))
        dvpp = Dvpp()
        with clock.stage("decode the JPEG (JPEGD)"):
            photo = dvpp.decode(jpeg)
        with clock.stage("find the lines (VPC, AIPP, det)"):
            boxes = detector.find(dvpp, photo)
        with clock.stage("read the lines (VPC, AIPP, rec)"):
            texts = [reader.read(dvpp, photo, box) for box in boxes]
        photo.destroy()
        dvpp.release()
        detector.release()
        reader.release()
    return np.asarray(Image.open(io.BytesIO(jpeg))), boxes, texts


if __name__ == "__main__":
    sys.exit(demo(run, __doc__))
