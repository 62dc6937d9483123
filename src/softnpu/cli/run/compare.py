"""The comparison of `softnpu run`: the original ONNX model in onnxruntime, on the same inputs, output by output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.cli.run.inputs import Array
from softnpu.cli.run.options import Refusal
from softnpu.compiler.lowering.evaluate import runtime
from softnpu.graph.om import ModelInfo

TOLERANCE = 1e-4
HALF_TOLERANCE = 1e-2  # half precision has 11 bits


_NOTHING = 1e-6


@dataclass(frozen=True)
class Difference:
    """How far an output is from the original's; over several sets of inputs the worst."""

    name: str
    absolute: float
    relative: float
    cosine: float
    tolerance: float
    why: str = ""  # what cannot be expressed as a number: other shapes, NaN

    @property
    def equal(self) -> bool:
        """Whether the error is within the tolerance, relative to the largest value; below a millionth nothing counts."""
        return not self.why and (self.relative <= self.tolerance or self.absolute <= min(self.tolerance, _NOTHING))

    def worse(self, other: Difference) -> Difference:
        """The worse of two, number by number."""
        return Difference(
            self.name,
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
            min(self.cosine, other.cosine),
            self.tolerance,
            self.why or other.why,
        )


class Original:
    """The model before its conversion."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise Refusal(f"the original model {path} does not exist", "check the path of --compare")
        ort = runtime()
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        try:
            self.session = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        except Exception as problem:  # onnxruntime has an exception class per reason
            text = " ".join(str(problem).split())[:300]
            raise Refusal(f"onnxruntime cannot read {path}: {text}", "--compare takes an ONNX model") from problem
        self.path = path

    def compare(
        self,
        arrays: list[Array],
        info: ModelInfo,
        fed: list[int],
        outputs: list[Array],
        tolerance: float | None,
        so_far: list[Difference],
    ) -> list[Difference]:
        """Run the original on the same inputs; returns the differences, joined with those of earlier sets."""
        feeds = self._feeds(arrays, [info.inputs[index].name for index in fed])
        names = self._names([one.name for one in info.outputs])
        try:
            wanted = self.session.run(names, feeds)
        except Exception as problem:
            text = " ".join(str(problem).split())[:300]
            raise Refusal(f"the original {self.path} failed on these inputs: {text}", "check the inputs") from problem
        found = [
            difference(name, ours, np.asarray(theirs), tolerance)
            for name, ours, theirs in zip(names, outputs, wanted, strict=True)
        ]
        return [old.worse(new) for old, new in zip(so_far, found, strict=True)] if so_far else found

    def _feeds(self, arrays: list[Array], names: list[str]) -> dict[str, Array]:
        places = {one.name: one for one in self.session.get_inputs()}
        if len(places) != len(arrays):
            raise Refusal(f"the original has {len(places)} inputs, the model {len(arrays)}", "is it the same model?")
        by_name = all(name in places for name in names)
        feeds = {}
        for name, place, array in zip(names, list(places.values()), arrays, strict=True):
            target = places[name] if by_name else place
            _check_same(target, array, name)
            feeds[target.name] = array
        return feeds

    def _names(self, names: list[str]) -> list[str]:
        """The original's names of the outputs; those of a compiled model are `node:index:tensor`."""
        known = [one.name for one in self.session.get_outputs()]
        found = []
        for index, name in enumerate(names):
            fitting = [one for one in known if name == one or name.endswith(f":{one}")]
            if fitting:
                found.append(max(fitting, key=len))
            elif len(names) == len(known):
                found.append(known[index])
            else:
                raise Refusal(f"the original has no output {name!r}", f"it has: {', '.join(known)}")
        return found


def _check_same(place: Any, array: Array, name: str) -> None:
    kind = place.type.removeprefix("tensor(").removesuffix(")")
    theirs = {"float": "float32", "double": "float64"}.get(kind, kind)
    shape = [dim if isinstance(dim, int) else None for dim in place.shape]
    fits = len(shape) == array.ndim and all(dim in (None, real) for dim, real in zip(shape, array.shape, strict=True))
    if theirs != str(array.dtype) or not fits:
        raise Refusal(
            f"input {name} is {array.dtype} {list(array.shape)} here and {theirs} {place.shape} in the original",
            "a model with AIPP or other input types cannot be compared; convert it without for this",
        )


def difference(name: str, ours: Array, theirs: Array, tolerance: float | None = None) -> Difference:
    """How far two arrays are from each other; the relative error is that of the largest value."""
    if tolerance is None:
        tolerance = HALF_TOLERANCE if np.float16 in (ours.dtype, theirs.dtype) else TOLERANCE
    if ours.shape != theirs.shape:
        return Difference(
            name, np.inf, np.inf, 0.0, tolerance, f"shape {list(ours.shape)}, original {list(theirs.shape)}"
        )
    if not ours.size:
        return Difference(name, 0.0, 0.0, 1.0, tolerance)
    a, b = ours.astype(np.float64).ravel(), theirs.astype(np.float64).ravel()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    strange = int(np.count_nonzero(~finite & ~same))
    why = f"{strange} values are infinite or NaN in one only" if strange else ""
    a, b = a[finite], b[finite]
    absolute = float(np.abs(a - b).max(initial=0.0))
    largest = float(np.abs(b).max(initial=0.0))
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b / length) if length else float(not absolute)
    return Difference(name, absolute, absolute / largest if largest else absolute, min(cosine, 1.0), tolerance, why)
