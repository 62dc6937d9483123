"""Measure the engines on one model, in a process of its own: `python -m softnpu.executor.measure model.om`.

Prints a JSON object with the median seconds of each engine. A process of its own, so that an engine that fails, crashes or
needs much memory does no harm to the program that only wants to load a model.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.executor.engines.base import Array, Engine, Place, Plan
from softnpu.executor.engines.onnxruntime import OrtEngine
from softnpu.executor.engines.openvino import OpenVinoEngine
from softnpu.graph.om import ModelInfo, Om, TensorInfo

_WARM, _MOST, _LEAST, _SECONDS = 2, 20, 5, 0.5
_TOLERANCE = 5e-5  # of the largest value of an output
_FLOOR = 2e-6  # differences that never matter


def measure(path: Path) -> dict[str, float]:
    """Median seconds of a run by engine; an engine whose numbers differ is left out.

    One engine after the other, each alone: threads of one go on spinning for a while and would slow the other down.
    """
    source = Om.open(path)
    info = source.info()
    program, weights_file = source.programs()[0], source.weights_place()
    try:
        second = Case(OpenVinoEngine(program, weights_file, source.all_weights()), info)
        times = {"openvino": second.median()}
    except Exception as error:
        print(f"openvino: {error}", file=sys.stderr)
        return {}
    first = Case(OrtEngine(program, weights_file, source.all_weights()), info)
    times["onnxruntime"] = first.median()
    if not first.agrees(second):
        print("openvino: its numbers differ", file=sys.stderr)
        del times["openvino"]
    return times


class Case:
    """An engine with arrays bound to it."""

    def __init__(self, engine: Engine, info: ModelInfo) -> None:
        random = np.random.default_rng(0)
        names = [str(name) for name in info.run.engine_inputs]  # a model with gears is not measured: all have one
        self.inputs = [_random(random, tensor) for tensor in info.inputs]
        self.outputs = [np.zeros(tensor.dims, numpy_name(tensor.dtype)) for tensor in info.outputs]
        taken = [
            _place(name, tensor, array) for name, tensor, array in zip(names, info.inputs, self.inputs, strict=True)
        ]
        targets = [
            _place(name, tensor, array)
            for name, tensor, array in zip(info.run.engine_outputs, info.outputs, self.outputs, strict=True)
        ]
        self.plan: Plan = engine.plan(taken, targets)

    def once(self) -> float:
        """Seconds of one run."""
        start = time.perf_counter()
        self.plan.run()
        return time.perf_counter() - start

    def median(self) -> float:
        """Median seconds of a run, after some to warm up."""
        for _ in range(_WARM):
            self.once()
        times: list[float] = []
        end = time.perf_counter() + _SECONDS
        while len(times) < _MOST and (len(times) < _LEAST or time.perf_counter() < end):
            times.append(self.once())
        return statistics.median(times)

    def agrees(self, other: Case) -> bool:
        """Whether both have the same results."""
        for a, b in zip(self.outputs, other.outputs, strict=True):
            if a.dtype.kind in "fc":
                allowed = max(_TOLERANCE * float(np.max(np.abs(a), initial=0.0)), _FLOOR)
                if not np.allclose(a, b, rtol=2 * _TOLERANCE, atol=allowed, equal_nan=True):
                    return False
            elif not np.array_equal(a, b):
                return False
        return True


def _random(random: np.random.Generator, info: TensorInfo) -> Array:
    dtype = np.dtype(numpy_name(info.dtype))
    if dtype.kind == "f":
        return random.random(info.dims, np.float32).astype(dtype)
    return np.ones(info.dims, dtype)


def _place(name: str, info: TensorInfo, array: Array) -> Place:
    return Place(name, info.dtype, array.shape, int(array.ctypes.data))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
