"""Single operators at run time: the register of models by type, tensors and attributes, and their runs on streams.

Models come from files (`set_model_dir`) or memory (`load`). A known type of which no model was loaded is compiled when it is
first asked for, unless memory checking is strict: then only loaded models count, as on hardware.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import INFO, WARNING, log
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.model import Model
from softnpu.executor.single_op import match
from softnpu.executor.single_op.kernels import KernelBook, Selector
from softnpu.executor.single_op.match import OpAttr, Signature
from softnpu.executor.single_op.run import Run
from softnpu.graph.om import Om
from softnpu.runtime.parts import Part

if TYPE_CHECKING:
    from softnpu.runtime.process import Process
    from softnpu.runtime.streams.stream import Context, Stream

_LEVELS = 3


class OpModel:
    """A model of one operator; its engine starts with the first run on a device."""

    def __init__(self, source: Om, key: dict[str, Any], origin: str) -> None:
        self.source, self.key, self.origin = source, key, origin
        self.kept = match.real_inputs(key)  # positions of the inputs that are neither constant nor absent
        self._models: dict[int, Model] = {}
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call

    def model(self, context: Context) -> Model:
        """The model on the device of a context."""
        model = self._models.get(context.device.index)
        if model is None:
            with self._lock:
                model = self._models.get(context.device.index)
                if model is None:
                    model = self._models[context.device.index] = Model(self.source, context)
        return model


class OpHandle:
    """An operator that was found once and is run often."""

    def __init__(self, op_type: str, model: OpModel, inputs: list[TensorDesc], outputs: list[TensorDesc]) -> None:
        self.op_type, self.model = op_type, model
        self.inputs, self.outputs = inputs, outputs


class SingleOps(Part):
    """The single operators of a process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kernels = KernelBook()
        self._folder = ""
        self._loaded: dict[str, list[OpModel]] = {}
        self._found: OrderedDict[Signature, OpModel] = OrderedDict()
        self._lock = threading.RLock()

    @classmethod
    def of(cls, owner: Process) -> SingleOps:
        """As many are kept as the configuration of `acl.init` says."""
        return cls(owner.config.max_opqueue_num)

    # ---- loading -----------------------------------------------------------------------------------------------------

    def set_folder(self, path: str) -> None:
        """Load every single-operator model below a folder, three levels deep; once only."""
        if self._folder:
            raise NpuError(
                codes.REPEAT_INITIALIZE,
                f"the model directory is {self._folder!r} already",
                "call acl.op.set_model_dir once, or add models with acl.op.load",
            )
        folder = Path(path)
        if not _is_folder(folder):
            raise NpuError(
                codes.READ_MODEL_FAILURE,
                f"{path!r} is no directory that can be read",
                "pass the folder given to atc as --output",
            )
        models = [self._read(path) for path in _models_below(folder)]
        with self._lock:
            for model in models:
                if model is not None:
                    self._add(model)
            self._folder = path
        log().write(
            INFO,
            f"{sum(model is not None for model in models)} single-operator models loaded from {path}",
            "ASCENDCL",
            "set_model_dir",
        )

    def _read(self, path: Path) -> OpModel | None:
        try:
            key = Om.open(path).info().run.single_op  # mapped: what is no single operator may be large
            if not match.is_key(key):
                log().write(WARNING, f"{path} holds no single operator and is left out", "ASCENDCL", "set_model_dir")
                return None
            return OpModel(Om(path.read_bytes()), key, str(path))  # the folder may go away before the first run
        except (NpuError, OSError) as error:
            raise NpuError(
                codes.READ_MODEL_FAILURE,
                f"the model {str(path)!r} cannot be loaded: {error}",
                "convert it again with atc --singleop, or take it out of the folder",
            ) from error

    def load(self, data: bytes) -> None:
        """Load one model from memory."""
        source = Om(data)
        key = source.info().run.single_op
        if not match.is_key(key):
            raise NpuError(
                codes.MODEL_MISSING_ATTR,
                "the model holds no single operator",
                "convert the operator with atc --singleop",
            )
        with self._lock:
            self._add(OpModel(source, key, "memory"))

    def _add(self, model: OpModel) -> None:
        self._loaded.setdefault(model.key["op"], []).append(model)
        self._found.clear()

    def set_limit(self, count: int) -> None:
        """How many operators are kept ready; the oldest go first."""
        if not count:
            raise NpuError(
                codes.INVALID_PARAM,
                "a queue of 0 operators is not possible",
                "pass a positive number; the default is 20000",
            )
        with self._lock:
            self.limit = count
            self._trim()

    def _trim(self) -> None:
        while len(self._found) > self.limit:
            self._found.popitem(last=False)

    def register(self, op_type: str, selector: Selector | None) -> None:
        """Give a type a selector, or take it away; what was found before is looked for again."""
        with self._lock:
            if selector is None:
                self.kernels.unregister(op_type)
            else:
                self.kernels.register(op_type, selector)
            self._found.clear()

    # ---- finding -----------------------------------------------------------------------------------------------------

    def find(
        self,
        op_type: str,
        inputs: Sequence[TensorDesc],
        outputs: Sequence[TensorDesc],
        attr: OpAttr | None,
        strict: bool,
    ) -> OpModel:
        """The model for an operator; raises 100024 when there is none."""
        signature = match.signature(op_type, inputs, outputs, attr)
        model = self._found.get(signature)
        if model is None:
            with self._lock:
                model = self._found.get(signature) or self._search(op_type, inputs, outputs, attr, strict)
                self._found[signature] = model
                self._trim()
        return model

    def _search(
        self,
        op_type: str,
        inputs: Sequence[TensorDesc],
        outputs: Sequence[TensorDesc],
        attr: OpAttr | None,
        strict: bool,
    ) -> OpModel:
        asked = match.describe(op_type, inputs, outputs, attr)
        chosen = self.kernels.has_selector(op_type)
        meaning = self.kernels.meaning(op_type, asked) if chosen else op_type
        loaded = self._loaded.get(op_type, ())
        best = match.best([model.key for model in loaded], asked)
        if best is not None:
            return loaded[best]
        if loaded or (strict and not chosen):
            raise _not_found(asked, [model.key for model in loaded], strict)
        return _compile(match.renamed(asked, meaning))

    # ---- running -----------------------------------------------------------------------------------------------------

    def execute(
        self, process: Process, op_type: str, inputs: tuple[list[TensorDesc], list[DataBuffer]], outputs: tuple[list[TensorDesc], list[DataBuffer]],
        attr: OpAttr | None, stream: Stream,
    ) -> None:  # fmt: skip
        """Queue an operator on a stream."""
        for side, (descs, buffers) in (("input", inputs), ("output", outputs)):
            if len(descs) != len(buffers):
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"{op_type} has {len(descs)} {side} descriptions and {len(buffers)} {side} buffers",
                    "give one buffer for each description",
                )
        if outputs[0] and all(0 in desc.dims for desc in outputs[0]):
            return
        model = self.find(op_type, inputs[0], outputs[0], attr, process.memory.strict)
        Run(process, op_type, model.model(stream.context), model.kept, inputs, outputs).submit(stream)

    def prepare(
        self, op_type: str, inputs: list[TensorDesc], outputs: list[TensorDesc], attr: OpAttr | None, strict: bool
    ) -> OpHandle:
        """An operator as a handle; descriptions are copied, so that the program may change its own."""
        model = self.find(op_type, inputs, outputs, attr, strict)
        return OpHandle(op_type, model, [desc.copy() for desc in inputs], [desc.copy() for desc in outputs])

    def execute_handle(
        self, process: Process, handle: OpHandle, inputs: list[DataBuffer], outputs: list[DataBuffer], stream: Stream
    ) -> None:
        """Queue a prepared operator."""
        for what, code, descs, wanted in (
            ("inputs", codes.OP_INPUT_NOT_MATCH, inputs, handle.inputs),
            ("outputs", codes.OP_OUTPUT_NOT_MATCH, outputs, handle.outputs),
        ):
            if len(descs) != len(wanted):
                raise NpuError(
                    code,
                    f"{len(descs)} {what} were given, the handle of {handle.op_type} was made for {len(wanted)}",
                    "pass one buffer per description of create_handle",
                )
        if handle.outputs and all(0 in desc.dims for desc in handle.outputs):
            return
        model = handle.model
        Run(
            process,
            handle.op_type,
            model.model(stream.context),
            model.kept,
            (handle.inputs, inputs),
            (handle.outputs, outputs),
        ).submit(stream)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _models_below(folder: Path, levels: int = _LEVELS) -> list[Path]:
    paths: list[Path] = []
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NpuError(
            codes.READ_MODEL_FAILURE, f"{str(folder)!r} cannot be read: {error.strerror}", "check its rights"
        ) from error
    for entry in entries:
        if entry.is_dir():
            paths += _models_below(entry, levels - 1) if levels > 1 else []
        elif entry.suffix == ".om":
            paths.append(entry)
    return paths


def _compile(op: Any) -> OpModel:
    """A model made on the spot."""
    from softnpu.executor.single_op.compile import compile_op  # the compiler: not loaded by programs that bring models

    data, key = compile_op(op)
    return OpModel(Om(data), key, "compiled")


def _not_found(asked: Any, loaded: list[dict[str, Any]], strict: bool) -> NpuError:
    tensors = match.in_words(asked.key())
    if not loaded:
        reason = "no model of this type is loaded" + (", and strict mode compiles none" if strict else "")
    else:
        reason = f"the {len(loaded)} loaded models of this type are for {'; '.join(match.in_words(key) for key in loaded[:3])}"
    return NpuError(
        codes.OP_NOT_FOUND,
        f"no loaded model fits {asked.op} with {tensors}: {reason}",
        "compile it with atc --singleop and load it with acl.op.set_model_dir or acl.op.load",
    )


def table(process: Process) -> SingleOps:
    """The single operators of a process object."""
    process.need_start()
    return process.part(SingleOps)
