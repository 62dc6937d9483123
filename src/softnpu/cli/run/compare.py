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
        names = self._names([tensor.name for tensor in info.outputs])
        try:
            wanted = self.session.run(names, feeds)
        except Exception as problem:
            text = " ".join(str(problem).split())[:300]
            raise Refusal(f"the original {self.path} failed on these inputs: {text}", "check the inputs") from problem
        differences = [
            difference(name, ours, np.asarray(theirs), tolerance)
            for name, ours, theirs in zip(names, outputs, wanted, strict=True)
        ]
        return [old.worse(new) for old, new in zip(so_far, differences, strict=True)] if so_far else differences

    def _feeds(self, arrays: list[Array], names: list[str]) -> dict[str, Array]:
        by_their_name = {entry.name: entry for entry in self.session.get_inputs()}
        if len(by_their_name) != len(arrays):
            raise Refusal(
                f"the original has {len(by_their_name)} inputs, the model {len(arrays)}", "is it the same model?"
            )
        by_name = all(name in by_their_name for name in names)
        feeds = {}
        for name, described, array in zip(names, list(by_their_name.values()), arrays, strict=True):
            target = by_their_name[name] if by_name else described
            _check_same(target, array, name)
            feeds[target.name] = array
        return feeds

    def _names(self, names: list[str]) -> list[str]:
        """The original's names of the outputs; those of a compiled model are `node:index:tensor`."""
        known = [entry.name for entry in self.session.get_outputs()]
        matched = []
        for index, name in enumerate(names):
            fitting = [candidate for candidate in known if name == candidate or name.endswith(f":{candidate}")]
            if fitting:
                matched.append(max(fitting, key=len))
            elif len(names) == len(known):
                matched.append(known[index])
            else:
                raise Refusal(f"the original has no output {name!r}", f"it has: {', '.join(known)}")
        return matched


def _check_same(described: Any, array: Array, name: str) -> None:
    kind = described.type.removeprefix("tensor(").removesuffix(")")
    theirs = {"float": "float32", "double": "float64"}.get(kind, kind)
    shape = [dim if isinstance(dim, int) else None for dim in described.shape]
    fits = len(shape) == array.ndim and all(dim in (None, real) for dim, real in zip(shape, array.shape, strict=True))
    if theirs != str(array.dtype) or not fits:
        raise Refusal(
            f"input {name} is {array.dtype} {list(array.shape)} here and {theirs} {described.shape} in the original",
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
