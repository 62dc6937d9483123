"""Read the text of JPEG photographs as a flow: decode → detect → recognise → draw, several photographs at the same time.

The same work as `examples/ocr_pipeline.py`, split into nodes. `decode` and `recognise` are classes that use pyACL inside their
own process (JPEGD and VPC; VPC and the reader's `.om`), `detect` is a model node with the detector's ONNX file and AIPP, `draw`
is a function. The photographs are drawn here, or given as JPEG files. `--check` reads them once more with the acl program.
Needs softnpu[media], Pillow, and rapidocr_onnxruntime for its models; nothing of it is imported.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dataflow as df

sys.path.append(str(Path(__file__).parents[1]))
import acl_process
from media_common import NV12, RGB888, Dvpp, Picture
from ocr_demo import (
    AIPP,
    DETECTOR,
    HEIGHT,
    LINES,
    READER,
    WIDTH,
    characters,
    convert,
    convert_reader,
    find_boxes,
    find_models,
    save,
)
from ocr_pipeline import Box, MediaDetector, MediaReader, photograph
from PIL import Image

TIMEOUT_MS = 120_000
IN_FLIGHT = 8


class Frame(NamedTuple):
    """A photograph as it lies in media memory: NV12 with its strides."""

    width: int
    height: int
    nv12: np.ndarray


class Line(NamedTuple):
    """What was read, how sure the model is, and where it stands."""

    text: str
    sure: float
    box: Box


@df.pyflow
class Decode:
    """JPEGD, and VPC for the detector's size."""

    def __init__(self) -> None:
        acl_process.enter()
        self.dvpp = Dvpp()

    @df.method(num_returns=2)
    def decode(self, jpeg: bytes) -> tuple[Frame, df.Tensor]:
        """The photograph, and a small one for the detector."""
        acl_process.enter()
        photo = self.dvpp.decode(jpeg)
        small = self.dvpp.resize(photo, WIDTH, HEIGHT, RGB888, columns=1)
        outputs = Frame(photo.width, photo.height, photo.read()), df.Tensor(small.rows()[None])
        photo.destroy()
        small.destroy()
        return outputs

    def __del__(self) -> None:
        acl_process.enter()
        self.dvpp.release()


@df.pyflow
class Recognise:
    """VPC cuts the lines out, the reader reads them."""

    def __init__(self, model: Path, alphabet: list[str]) -> None:
        acl_process.enter()
        self.dvpp, self.reader = Dvpp(), MediaReader(model, alphabet)

    @df.method()
    def read(self, frame: Frame, share: df.Tensor) -> list[Line]:
        """The lines of a photograph; `share` is the detector's map."""
        acl_process.enter()
        photo = Picture(frame.width, frame.height, NV12, columns=128, rows=16)
        photo.write(frame.nv12.tobytes())
        boxes = [in_photo(box, frame) for box in find_boxes(share.numpy().reshape(HEIGHT, WIDTH))]
        lines = [Line(*self.reader.read(self.dvpp, photo, box), box) for box in boxes]
        photo.destroy()
        return lines

    def __del__(self) -> None:
        acl_process.enter()
        self.reader.release()
        self.dvpp.release()


def in_photo(box: Box, frame: Frame) -> Box:
    """A box of the small picture in the photograph's pixels, which NV12 counts in pairs."""
    left, top, right, bottom = box
    across, down = frame.width / WIDTH, frame.height / HEIGHT
    return tuple(
        2 * round(side * by / 2) for side, by in ((left, across), (top, down), (right, across), (bottom, down))
    )


@df.pyflow(num_returns=2)
def draw(jpeg: bytes, name: str, lines: list[Line]) -> tuple[str, list[Line]]:
    """The photograph with boxes and texts, as a file."""
    image = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
    save(Path(name), image, [line.box for line in lines], [line.text for line in lines])
    return name, lines


def detector(folder: Path, originals: Path) -> df.FlowNode:
    """The model node; AIPP takes the bytes of the small picture as they are."""
    (folder / "det.cfg").write_text(AIPP.format(width=WIDTH, height=HEIGHT), encoding="utf-8")
    options = {"ge.inputShape": f"x:1,3,{HEIGHT},{WIDTH}", "ge.insertOpFile": str(folder / "det.cfg")}
    (folder / "det.json").write_text(json.dumps({"build_options": options}), encoding="utf-8")
    point = df.GraphProcessPoint(
        df.Framework.ONNX, str(originals / DETECTOR), compile_config_path=str(folder / "det.json")
    )
    return point.fnode(1, 1, name="detect")


def flow(folder: Path) -> tuple[df.FlowGraph, df.FlowData, df.FlowData]:
    """The graph and its inputs: a JPEG file, and the name of the picture to write."""
    originals = find_models()
    jpeg, name = df.FlowData(name="jpeg"), df.FlowData(name="name")
    frame, small = Decode.fnode().decode(jpeg)
    share = detector(folder, originals)(small)
    reader = Recognise.fnode(convert_reader(folder, originals), characters(originals / READER))
    written, lines = draw.fnode()(jpeg, name, reader.read(frame, share))
    return df.FlowGraph([written, lines], name="ocr"), jpeg, name


def read_all(folder: Path, photos: list[bytes], output: Path) -> list[list[Line]]:
    """Send the photographs through the flow, up to IN_FLIGHT at a time."""
    graph, jpeg, name = flow(folder)
    results: list[tuple[str, list[Line]]] = []
    with graph.progress(total=len(photos)):  # a line on a terminal, nothing elsewhere
        for number, photo in enumerate(photos):
            code = graph.feed({jpeg: photo, name: str(output / f"ocr_{number}.png")}, timeout=TIMEOUT_MS)
            if code:
                sys.exit(f"feed gave {code}; the lines above say why")
            if number >= IN_FLIGHT - 1:
                results.append(take(graph))
        while len(results) < len(photos):
            results.append(take(graph))
    for written, lines in results:
        print(f"{written}: {' | '.join(line.text for line in lines)}")
    for row in graph.statistics():
        print(f"{row['node']:16} {row['call_p50'] * 1000:6.1f} ms a call, busy {row['busy']:.0%}")
    return [lines for _, lines in results]


def take(graph: df.FlowGraph) -> tuple[str, list[Line]]:
    """The next result: the picture's name and its lines."""
    fetched, code = graph.fetch(timeout=TIMEOUT_MS)
    if code:
        sys.exit(f"fetch gave {code}; the lines above say why")
    written, lines = fetched
    return written, lines


def read_with_acl(folder: Path, photos: list[bytes]) -> list[list[Line]]:
    """The same photographs one after the other, as `ocr_pipeline.py` does it."""
    originals = find_models()
    acl_process.enter()
    detector_path, reader_path = convert(folder, originals)
    detector, reader, dvpp = (
        MediaDetector(detector_path),
        MediaReader(reader_path, characters(originals / READER)),
        Dvpp(),
    )
    results = []
    for jpeg in photos:
        photo = dvpp.decode(jpeg)
        boxes = detector.find(dvpp, photo)
        results.append([Line(*reader.read(dvpp, photo, box), box) for box in boxes])
        photo.destroy()
    for owner in (detector, reader, dvpp):
        owner.release()
    return results


def equal(ours: list[list[Line]], theirs: list[list[Line]]) -> bool:
    """The same texts and boxes; how sure the model is may differ in the last digits, as engines may."""
    return all(
        [(line.text, line.box) for line in mine] == [(line.text, line.box) for line in other]
        and np.allclose([line.sure for line in mine], [line.sure for line in other], atol=1e-3)
        for mine, other in zip(ours, theirs, strict=True)
    )


def main() -> int:
    """0 when everything was read as it was drawn, and as the acl program reads it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jpegs", nargs="*", type=Path, help="JPEG files; without any, photographs are drawn")
    parser.add_argument("--engine", default="embedded", help="embedded (a process per node), inline, ray")
    parser.add_argument("--count", type=int, default=6, help="how many photographs are drawn")
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the pictures with boxes and texts")
    parser.add_argument("--check", action="store_true", help="compare with the acl program")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    texts = [LINES[number % len(LINES) :] + LINES[: number % len(LINES)] for number in range(args.count)]
    photos = [path.read_bytes() for path in args.jpegs] or [photograph(lines) for lines in texts]
    df.init({"ge.exec.deviceId": "0", "softnpu.flow.engine": args.engine})
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="softnpu-ocr-") as folder:
        results = read_all(Path(folder), photos, args.output)
        seconds = time.perf_counter() - began
        df.finalize()
        same = not args.check or equal(results, read_with_acl(Path(folder), photos))
    print(f"{len(photos)} photographs in {seconds:.1f} s with the engine {args.engine}, models and processes included.")
    if args.check:
        print("The acl program reads the same." if same else "The acl program reads something else.")
    exact = bool(args.jpegs) or [tuple(line.text for line in lines) for lines in results] == texts
    if not args.jpegs:
        print("Every line was read exactly as it was drawn." if exact else "Not every line was read as it was drawn.")
    return 0 if same and exact else 1


if __name__ == "__main__":
    sys.exit(main())
