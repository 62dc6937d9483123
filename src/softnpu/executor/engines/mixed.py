"""A program in pieces: engines for most of it, NumPy for operators that have no ONNX form."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu import ops
from softnpu.base.dtypes import from_numpy, numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.executor.engines.base import Array, Engine, Place, Plan, Shape, view

Steps = list[dict[str, Any]]


class MixedEngine(Engine):
    """Runs steps one after the other; values between them are arrays of the host."""

    name = "mixed"

    def __init__(self, engines: list[Engine], steps: Steps) -> None:
        self.engines = engines
        self.steps = steps
        for step in steps:
            known = "program" in step and 0 <= step["program"] < len(engines)
            operator = ops.find(str(step.get("type"))) if "type" in step else None
            if not known and (operator is None or operator.compute is None):
                raise NpuError(
                    codes.GE_EXEC_LOAD_KERNEL_PARTITION_FAILED,
                    f"the model has a step {step.get('type')!r} that this version cannot run",
                    "convert it again with this version's atc",
                )

    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Take the places as they are; pieces are bound while running, since shapes may follow from values."""
        return _MixedPlan(self, inputs, outputs)

    def close(self) -> None:
        """Close every piece."""
        for engine in self.engines:
            engine.close()


class _MixedPlan(Plan):
    def __init__(self, engine: MixedEngine, inputs: list[Place], outputs: list[Place]) -> None:
        self._engine = engine
        self._inputs = inputs
        self._outputs = outputs
        self._found: list[tuple[int, Shape, int, object]] = []

    def run(self) -> None:
        """Run every step."""
        values: dict[str, Array] = {place.name: view(place) for place in self._inputs}
        for step in self._engine.steps:
            results = self._piece(step, values) if "program" in step else _compute(step, values)
            values.update(zip(step["outputs"], results, strict=False))
        self._found = []
        for place in self._outputs:
            array = np.ascontiguousarray(values[place.name])
            if place.shape is None:
                self._found.append((from_numpy(array.dtype.name), array.shape, int(array.ctypes.data), array))
            else:
                if array.shape != place.shape:
                    raise NpuError(
                        codes.GE_INTERNAL_ERROR,
                        f"the result {place.name} has the dims {list(array.shape)} instead of {list(place.shape)}",
                    )
                view(place)[...] = array

    def _piece(self, step: dict[str, Any], values: dict[str, Array]) -> list[Array]:
        engine = self._engine.engines[step["program"]]
        taken = []
        for name in step["inputs"]:
            array = values[name] = np.ascontiguousarray(values[name])
            taken.append(Place(name, from_numpy(array.dtype.name), array.shape, int(array.ctypes.data)))
        plan = engine.plan(taken, [Place(name, -1, None, 0) for name in step["outputs"]])
        plan.run()
        results = []
        for dtype, shape, address, _ in plan.results():
            array = view(Place("", dtype, shape, address))
            results.append(array.copy())  # the engine's memory goes with its plan
        return results

    def results(self) -> list[tuple[int, Shape, int, object]]:
        """Outputs without a place."""
        return self._found


def _compute(step: dict[str, Any], values: dict[str, Array]) -> list[Array]:
    operator = ops.find(step["type"])
    assert operator is not None and operator.compute is not None
    arrays: list[Array | None] = []
    for source in step["inputs"]:
        if isinstance(source, dict):
            arrays.append(np.array(source["data"], numpy_name(source["dtype"])).reshape(source["shape"]))
        else:
            arrays.append(values[source] if source is not None else None)
    site = ops.Site(
        type=step["type"],
        name=step["name"],
        attrs=step["attrs"],
        inputs=[None if array is None else str(index) for index, array in enumerate(arrays)],
        input_dtypes=step["input_dtypes"],
        input_shapes=[None if array is None else array.shape for array in arrays],
        constants=list(arrays),
        outputs=len(step["outputs"]),
        output_dtypes=step["output_dtypes"],
        output_shapes=[None if dims is None else tuple(dims) for dims in step["output_shapes"]],
        input_formats=step["input_formats"],
    )
    try:
        return list(operator.compute(site, *arrays))
    except ops.OpError as error:
        raise NpuError(codes.GE_INTERNAL_ERROR, str(error), "check the inputs of the model") from error
