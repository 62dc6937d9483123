"""Inputs of `softnpu run`: files, folders of files, or random numbers from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.dtypes import element_size, numpy_name
from softnpu.cli.run.options import Refusal

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
ENDINGS = (".npy", ".bin")
_SMALL_NUMBERS = 2  # integers are often indices or masks: 0 and 1 fit both


@dataclass(frozen=True)
class Wanted:
    """What a model takes at one input. The shape is None while only the data can tell it."""

    name: str
    dtype: int
    shape: Shape | None

    @property
    def numpy(self) -> np.dtype[Any]:
        """The array type; types that NumPy has not travel as their bits."""
        return np.dtype(numpy_name(self.dtype) or f"u{element_size(self.dtype)}")


@dataclass(frozen=True)
class InputSet:
    """The files of one run; the label names its results."""

    label: str
    files: list[Path]


def find_sets(entries: Sequence[str], names: Sequence[str]) -> list[InputSet]:
    """The sets of input files that `--input` means: an entry per input, or one folder that holds a file for each."""
    lists = [_files(entry) for entry in entries]
    count = len(names)
    if len(lists) == 1 and count > 1 and Path(entries[0]).is_dir():
        if len(lists[0]) != count:
            raise Refusal(
                f"the folder {entries[0]} holds {len(lists[0])} files, the model has {count} inputs ({', '.join(names)})",
                "give one folder or file per input, separated by commas",
            )
        return [InputSet(Path(entries[0]).name, lists[0])]
    if len(lists) != count:
        raise Refusal(
            f"--input names {len(lists)} sources, the model has {count} inputs ({', '.join(names)})",
            "give one file or folder per input, separated by commas",
        )
    length = max(len(files) for files in lists)
    for entry, files in zip(entries, lists, strict=True):
        if len(files) != length:
            raise Refusal(
                f"{entry} has {len(files)} files, another input has {length}", "give each input the same number"
            )
    return [InputSet(lists[0][index].stem, [files[index] for files in lists]) for index in range(length)]


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        files = sorted(candidate for candidate in path.iterdir() if candidate.suffix in ENDINGS)
        if not files:
            raise Refusal(f"the folder {entry} holds no .npy or .bin file", "put the inputs there")
        return files
    if not path.is_file():
        raise Refusal(f"the input file {entry} does not exist", "check the path")
    if path.suffix not in ENDINGS:
        raise Refusal(f"the input file {entry} ends with {path.suffix or 'nothing'}", "use .npy, or .bin for raw bytes")
    return [path]


def read(path: Path, wanted: Wanted) -> Array:
    """An input from its file, checked against what the model takes."""
    return _read_npy(path, wanted) if path.suffix == ".npy" else _read_bin(path, wanted)


def _read_npy(path: Path, wanted: Wanted) -> Array:
    try:
        data: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise Refusal(f"{path} cannot be read as .npy: {problem}", "write it with numpy.save") from problem
    if data.dtype != wanted.numpy:
        raise Refusal(
            f"{path} holds {data.dtype}, input {wanted.name} takes {wanted.numpy}",
            f"save the array with .astype(numpy.{wanted.numpy})",
        )
    shape = wanted.shape if wanted.shape is not None else data.shape
    if [dim for dim in data.shape if dim != 1] != [dim for dim in shape if dim != 1]:
        raise Refusal(
            f"{path} holds the shape {list(data.shape)}, input {wanted.name} takes {list(shape)}", "check the shape"
        )
    return np.ascontiguousarray(data).reshape(shape)


def _read_bin(path: Path, wanted: Wanted) -> Array:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise Refusal(f"{path} cannot be read: {problem.strerror}", "check the path") from problem
    if wanted.shape is None:
        raise Refusal(f"raw bytes do not tell the shape of input {wanted.name}", "say it with --dymShape, or use .npy")
    need = math.prod(wanted.shape) * wanted.numpy.itemsize
    if len(data) != need:
        raise Refusal(
            f"{path} has {len(data)} bytes, input {wanted.name} takes {need}: {wanted.numpy} {list(wanted.shape)}",
            "write it with numpy's tofile, in this type and shape",
        )
    return np.frombuffer(data, wanted.numpy).reshape(wanted.shape)


def make(wanted: Wanted, generator: np.random.Generator) -> Array:
    """A random input: 0 to 1 for real numbers, every value for bytes, 0 or 1 for larger integers."""
    if wanted.shape is None:
        raise Refusal(f"input {wanted.name} has an open shape", f'say it with --dymShape "{wanted.name}:…"')
    kind = wanted.numpy
    if kind.kind in "fc":
        return generator.random(wanted.shape, np.float32).astype(kind)
    if kind.kind == "b" or (kind.itemsize > 1 and numpy_name(wanted.dtype)):
        return generator.integers(0, _SMALL_NUMBERS, wanted.shape).astype(kind)
    if not numpy_name(wanted.dtype):
        return np.zeros(wanted.shape, kind)  # bits of a type without arithmetic here: zero is a number in all of them
    limits = np.iinfo(kind)
    return generator.integers(limits.min, limits.max, wanted.shape, dtype=kind, endpoint=True)
