"""What both image pipelines share: frames, bilinear scaling by formula, and the loop that keeps several frames in flight."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from pathlib import Path

import numpy as np

import dataflow as df

sys.path.append(str(Path(__file__).parents[1]))
from models import picture

CROP, SMALL, LARGE = 512, 256, 512  # sides of a frame after the crop, for the models, at the end
MEAN = STD = 0.5
WIDTH, HEIGHT = 960, 720
IN_FLIGHT = 4
TIMEOUT_MS = 60_000
MICROSECONDS_PER_FRAME = 40_000


def arguments(words: str, *more: argparse.ArgumentParser) -> argparse.Namespace:
    """What can be chosen on the command line."""
    parser = argparse.ArgumentParser(description=words.splitlines()[0], parents=more)
    parser.add_argument("--engine", default="embedded", help="embedded (a process per node), inline, ray")
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--picture", type=Path, default=Path("flow.svg"), help="where the drawing of the graph goes")
    return parser.parse_args()


def frame(number: int) -> np.ndarray:
    """A frame of a camera that turns: (1, 3, height, width), numbers from 0 to 1."""
    return np.roll(_scene(), -32 * number, axis=3)


@functools.cache
def _scene() -> np.ndarray:
    pixels = picture(WIDTH, HEIGHT, 1).astype(np.float32) / 255
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def crop(image: np.ndarray) -> np.ndarray:
    """The middle of a frame; a view."""
    top, left = (image.shape[2] - CROP) // 2, (image.shape[3] - CROP) // 2
    return image[:, :, top : top + CROP, left : left + CROP]


def scale(image: np.ndarray, side: int) -> np.ndarray:
    """Bilinear scaling, centres of pixels on centres of pixels: down first, then across."""
    return _along(_along(image, side, 2), side, 3)


def _along(image: np.ndarray, new: int, axis: int) -> np.ndarray:
    old = image.shape[axis]
    position = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    first = np.minimum(position.astype(int), old - 2)
    share = (position - first).astype(np.float32).reshape([-1 if dim == axis else 1 for dim in range(4)])
    return np.take(image, first, axis) * (1 - share) + np.take(image, first + 1, axis) * share


def expected(image: np.ndarray) -> np.ndarray:
    """The whole pipeline by formula: normalising and its inverse cancel out."""
    return scale(scale(crop(image), SMALL), LARGE)


def run(graph: df.FlowGraph, source: df.FlowData, args: argparse.Namespace) -> None:
    """Feed all frames, a few ahead of the results, and compare every result with the formula."""
    began = time.perf_counter()
    worst = 0.0
    with graph.watch(stream=sys.stdout):
        for number in range(args.frames):
            info = df.FlowInfo(start_time=number * MICROSECONDS_PER_FRAME)
            info.set_user_data(f"frame {number}".encode())
            check(graph.feed_data({source: frame(number)}, info, TIMEOUT_MS), "feed_data")
            if number >= IN_FLIGHT:
                worst = max(worst, take(graph, number - IN_FLIGHT))
        for number in range(max(args.frames - IN_FLIGHT, 0), args.frames):
            worst = max(worst, take(graph, number))
    seconds = time.perf_counter() - began
    print(f"{args.frames} frames in {seconds:.2f} s, up to {IN_FLIGHT + 1} in flight, engine {args.engine}")
    print(f"largest difference from the formula: {worst:.2g}")
    graph.visualize(args.picture)
    print(f"The drawing of the graph with its numbers is {args.picture}.")
    if not worst < 1e-5:
        sys.exit("the difference is too large")


def take(graph: df.FlowGraph, number: int) -> float:
    """Fetch a result, which says itself which frame it is; how far it is from what it should be."""
    [result], info, code = graph.fetch_data(timeout=TIMEOUT_MS)
    check(code, "fetch_data")
    name = bytes(info.get_user_data(16)).rstrip(b"\0").decode()
    print(f"{name} at {info.start_time / 1e6:.2f} s: transaction {info.transaction_id}, shape {result.get_shape()}")
    if name != f"frame {number}":
        sys.exit(f"frame {number} was expected")
    return float(np.abs(result.numpy() - expected(frame(number))).max())


def check(code: int, what: str) -> None:
    """Stop at a code that is not 0."""
    if code:
        sys.exit(f"{what} gave {code}; the lines above say why")
