"""The body of a model node: an `.om` run by an engine, tensors in and tensors out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.executor import choose
from softnpu.executor.engines.base import Place as Spot
from softnpu.flow import codes, log
from softnpu.flow.bodies.common import source_of
from softnpu.flow.body import Inlet, InstanceInfo, Outlet
from softnpu.flow.message import ARRAY, LOCAL, TENSOR, TENSOR_DATA, TORCH_TENSOR, Message
from softnpu.flow.values import codec, dtypes, torch_door
from softnpu.flow.values.tensor import Tensor, allocate
from softnpu.graph.aipp import PARAMETERS
from softnpu.graph.inout import SHAPE_INPUT
from softnpu.graph.om import Om

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_STATIC_AIPP = 1


class Refused(Exception):
    """Inputs that the model cannot take, with the documented code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Result:
    """Memory of an engine as NumPy's array interface; holds what keeps it alive."""

    def __init__(self, address: int, shape: Shape, dtype: np.dtype[Any], keep: object) -> None:
        self.keep = keep
        kind = dtype.str if dtype.kind != "V" else f"<u{dtype.itemsize}"
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": kind, "version": 3}


class Runner:
    """A loaded model: arrays in, arrays out. The engine reads and writes the arrays' own memory."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.name = str(data["name"])
        source = Om.open(Path(data["path"])) if "path" in data else Om(data["om"])
        info = self._info = source.info()
        if any(tensor.name.startswith(PARAMETERS) for tensor in info.inputs):
            raise Refused(
                codes.PARAM_INVALID, f"the model {self.name} takes AIPP settings at run time; use static AIPP"
            )
        for tensor in (*info.inputs, *info.outputs):
            _numpy_type(tensor.dtype, tensor.name)
        self._fed = [tensor for tensor in info.inputs if tensor.name != SHAPE_INPUT]
        names = dict(zip((tensor.name for tensor in info.inputs), info.run.engine_inputs, strict=True))
        self._input_names = [str(names[tensor.name]) for tensor in self._fed]
        self._output_names = list(info.run.engine_outputs)
        self._inputs = [int(index) for index in data["inputs"]]  # the model's index for each of the node's
        self._outputs = [int(index) for index in data["outputs"]]
        taken = [self._output_names[index] for index in self._outputs]
        self.fresh = len(set(taken)) == len(taken)  # no two results share memory
        self._engine = choose.open_model(source, info)

    def close(self) -> None:
        """Give the engine back."""
        self._engine.close()

    def run(self, fed: Sequence[Array]) -> list[Array]:
        """One run; Refused says what is wrong with the inputs."""
        arrays = self._arranged(fed)
        gear = self._gear(arrays)
        inputs = [
            Spot(name, tensor.dtype, array.shape, int(array.ctypes.data))
            for name, tensor, array in zip(self._input_names, self._fed, arrays, strict=True)
        ]
        outputs: dict[str, Array | None] = {}
        spots = []
        for index, name in enumerate(self._output_names):
            if name in outputs:  # one tensor that is several outputs
                continue
            array = outputs[name] = self._room(index, gear)
            address, shape = (0, None) if array is None else (int(array.ctypes.data), array.shape)
            spots.append(Spot(name, self._info.outputs[index].dtype, shape, address))
        plan = self._engine.plan(inputs, spots)
        plan.run()
        loose = iter(plan.results())
        for name, array in outputs.items():
            if array is None:
                outputs[name] = _owned(*next(loose))
        return [self._named(outputs, index) for index in self._outputs]

    def _named(self, outputs: dict[str, Array | None], index: int) -> Array:
        array = outputs[self._output_names[index]]
        assert array is not None
        return array

    def _room(self, index: int, gear: int | None) -> Array | None:
        """Memory for an output, taken where messages lie; None where only the run tells its size."""
        tensor = self._info.outputs[index]
        dims = self._info.gear_outputs[gear][index] if gear is not None and self._info.gear_outputs else tensor.dims
        if any(dim < 0 for dim in dims):
            return None
        return allocate(dims, _numpy_type(tensor.dtype, tensor.name))

    def _arranged(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs in the model's order, each of the right type and shape."""
        if len(inputs) != len(self._fed):
            names = ", ".join(tensor.name for tensor in self._fed)
            raise Refused(codes.PARAM_INVALID, f"{len(inputs)} inputs came, the model has {len(self._fed)}: {names}")
        arrays: list[Array] = [np.empty(0)] * len(inputs)
        for index, array in zip(self._inputs, inputs, strict=True):
            self._check(index, array)
            arrays[index] = np.ascontiguousarray(array) if array.ndim else array
        return arrays

    def _check(self, index: int, array: Array) -> None:
        tensor = self._fed[index]
        wanted = _numpy_type(tensor.dtype, tensor.name)
        if array.dtype != wanted:
            raise Refused(
                codes.DATATYPE_INVALID,
                f"input {index} ({tensor.name}) has the type {array.dtype}, the model takes {wanted}",
            )
        if self._info.gears:
            return  # told together with the others
        dims = tensor.dims_v2 if self._aipp(tensor.name) == _STATIC_AIPP else tensor.dims
        fits = list(dims) == [-2] or (
            len(dims) == array.ndim
            and all(want in (-1, dim) for want, dim in zip(dims, array.shape, strict=True))
            and all(
                low <= dim and (high < 0 or dim <= high)
                for (low, high), dim in zip(tensor.ranges, array.shape, strict=False)
            )
        )
        if not fits:
            bounds = f" with the ranges {[list(pair) for pair in tensor.ranges]}" if tensor.ranges else ""
            raise Refused(
                codes.SHAPE_INVALID,
                f"input {index} ({tensor.name}) has the shape {list(array.shape)}, the model takes {list(dims)}{bounds}",
            )

    def _aipp(self, name: str) -> int:
        return self._info.run.aipp_type(name)

    def _gear(self, arrays: Sequence[Array]) -> int | None:
        """The gear that these shapes belong to; None for a model without gears."""
        if not self._info.gears:
            return None
        flat = [dim for array in arrays for dim in array.shape]
        if flat not in self._info.gear_inputs:
            shapes = [list(array.shape) for array in arrays]
            raise Refused(
                codes.SHAPE_INVALID,
                f"the shapes {shapes} are none that the model was built for: {self._info.gear_inputs}",
            )
        return self._info.gear_inputs.index(flat)


@functools.cache
def _numpy_type(number: int, name: str) -> np.dtype[Any]:
    """The NumPy type of a model's tensor; there are types that no message can carry."""
    for kind in dtypes.ALL:
        if int(kind.dtype) == number and kind is not dtypes.DT_STRING:
            dtype: np.dtype[Any] = np.dtype(dtypes.numpy_type(kind))
            return dtype
    raise Refused(codes.DATATYPE_INVALID, f"the tensor {name} has the type {number}, which messages cannot carry")


def _owned(number: int, shape: Shape, address: int, keep: object) -> Array:
    """A result in the engine's memory as an array that keeps it."""
    dtype = _numpy_type(number, "of a result")
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    array = np.asarray(_Result(address, shape, dtype, keep))
    return array if array.dtype == dtype else array.view(dtype)


def array_of(message: Message) -> Array:
    """What a model reads of a message: a tensor, a fed ndarray, or a torch tensor in whatever form it came."""
    payload = message.payload
    if payload.form in (TENSOR, ARRAY):
        return codec.decode_tensor(message)
    if message.msg_type == TORCH_TENSOR:
        return torch_door.as_array(message)
    value = payload.value
    if payload.form == LOCAL and isinstance(value, Tensor):
        return value.numpy()
    raise Refused(
        codes.DATATYPE_INVALID, f"a model takes tensors; a message of type {message.msg_type} came (feed a df.Tensor)"
    )


class ModelBody:
    """One call is one run; a message without data (the end of a stream) passes through."""

    takes_failures = False
    takes_exceptions = False

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._node = str(data["name"])
        self.runner: Runner | None = None

    def start(self, instance: InstanceInfo) -> None:
        """Load the model."""
        self._node = instance.node
        self.runner = Runner(self._data)

    def call(self, function: int, messages: Sequence[Message], out: Outlet) -> int:
        """Run once; what is wrong with the inputs is told in the log and by the code."""
        try:
            for index, message in enumerate(self.results(messages)):
                out.send(index, message)
        except Refused as problem:
            log.error("node %s: %s", self._node, problem)
            return problem.code
        except Exception as problem:
            log.error("node %s: the model failed: %s: %s", self._node, type(problem).__name__, problem)
            return codes.FUNC_FAILED
        return codes.SUCCESS

    def results(self, messages: Sequence[Message]) -> list[Message]:
        """The outputs as messages that carry on the envelope of the first input with data."""
        assert self.runner is not None, "start comes first"
        first = source_of(messages)
        if first is None:
            raise Refused(codes.PARAM_INVALID, "no inputs came")
        if first.null:
            return [Message().inherit(first) for _ in self._data["outputs"]]
        if any(message.null for message in messages):
            raise Refused(codes.PARAM_INVALID, "some inputs came without data; a model needs all of them")
        arrays = self.runner.run([array_of(message) for message in messages])
        results = [Message(codec.encode_tensor(array), TENSOR_DATA).inherit(first) for array in arrays]
        if self.runner.fresh:
            for message in results:
                message.payload.owned = True
        return results

    def stream(self, function: int, inlets: Sequence[Inlet], out: Outlet) -> int:
        """Models take one message per input."""
        raise NotImplementedError("a model has no stream input")

    def notice(self, trans_id: int, code: int, context_id: int) -> None:
        """Models have no use for exceptions of others (`takes_exceptions`)."""

    def close(self) -> None:
        """Give the engine back."""
        if self.runner is not None:
            self.runner.close()
            self.runner = None


def load(data: dict[str, Any]) -> ModelBody:
    """The loader that specs name."""
    return ModelBody(data)
