"""The options of `softnpu run` after parsing, and the small grammars of their values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FORMATS = ("npy", "bin", "txt")


class Refusal(Exception):
    """Something that cannot be done as asked: what, and what to do instead. The exit status is 2."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


@dataclass(frozen=True)
class RunOptions:
    """What `softnpu run` was asked for."""

    model: Path
    inputs: list[str]
    output: Path | None = None
    outfmt: str = "npy"
    loop: int = 1
    warmup: int = 1
    device: int = 0
    batch: int | None = None
    hw: list[int] | None = None
    dims: dict[str, list[int]] | None = None
    shapes: dict[str, list[int]] | None = None
    output_sizes: list[int] | None = None
    batch_size: int | None = None
    original: Path | None = None
    tolerance: float | None = None
    seed: int = 0
    json: bool = False


def numbers(text: str) -> list[int]:
    """`224,224` as numbers above 0; ValueError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"{text!r} is no list of numbers above 0, like 224,224")
    return [int(part) for part in parts]


def counts(text: str) -> list[int]:
    """The same where 0 is possible: let the runtime allocate."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"{text!r} is no list of sizes in bytes, like 10000,4000")
    return [int(part) for part in parts]


def named_dims(text: str) -> dict[str, list[int]]:
    """`data:1,3,224,224;info:1,4` as a dictionary; names may hold colons themselves."""
    shapes: dict[str, list[int]] = {}
    for part in text.split(";"):
        name, colon, dims = part.strip().rpartition(":")
        if not colon or not name:
            raise ValueError(f"{part!r} is no name with dims, like data:1,3,224,224")
        if name in shapes:
            raise ValueError(f"{name!r} is named twice")
        shapes[name] = numbers(dims)
    return shapes
