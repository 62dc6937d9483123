"""The instrumented path: when a model runs node by node, who looks on, and what stays of a node that failed."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log, no_line
from softnpu.base.watch import NodeRun, Watcher
from softnpu.executor import choose
from softnpu.executor.engines.base import Engine, Place
from softnpu.executor.engines.nodewise import NodeError, NodewiseEngine, holding
from softnpu.runtime.parts import Part
from softnpu.runtime.process import Process, process
from softnpu.runtime.streams.stream import Stream, StreamTask
from softnpu.runtime.watchers import Watchers

if TYPE_CHECKING:
    from softnpu.graph.inout import ModelInfo
    from softnpu.graph.om import Om
    from softnpu.runtime.streams.stream import Context

_TASK = "MODEL_EXECUTE"
_KEPT = 16  # failed nodes that can still be asked about; each may hold a lot of memory
_explaining = threading.Lock()
Ready = TypeVar("Ready")
Result = TypeVar("Result")


class Model(Protocol):
    """What must be known of a loaded model here."""

    id: int
    name: str
    context: Context
    source: Om
    info: ModelInfo
    engine: Engine


# ---- who looks -------------------------------------------------------------------------------------------------------


def _names(model: Model) -> frozenset[str]:
    path = model.source.path
    return frozenset({model.name} | ({path.stem} if path is not None else set()))


def _looking(model: Model) -> tuple[Watcher, ...]:
    watchers = process().part(Watchers).looking
    if model.info.run.single_op is not None:
        return tuple(watcher for watcher in watchers if watcher.wants_operators())
    return tuple(watcher for watcher in watchers if watcher.wants_model(_names(model)))


def wanted(model: Model) -> bool:
    """Whether somebody wants to see the nodes of a model that is being loaded."""
    return bool(_looking(model))


class _Subject:
    """A model as its engine names it; a single operator has no name of its own."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = "" if model.info.run.single_op is not None else model.name or "model"

    @property
    def number(self) -> int:
        return self._model.id

    def place(self) -> tuple[int, int]:
        context = self._model.context
        stream = _stream_here(context)
        return context.device.index, stream.id if stream is not None else context.default_stream.id


def attach(model: Model) -> None:
    """Tell the engine of a freshly loaded model whose nodes it runs and who looks on."""
    engine = model.engine
    if not isinstance(engine, NodewiseEngine):
        return
    engine.subject = _Subject(model)
    engine.watchers = _looking(model)
    nodes = frozenset(name for facts in engine.nodes.values() for name in (facts.name, *facts.origin))
    for watcher in engine.watchers:
        watcher.meets(_names(model), nodes)


def _stream_here(context: Context) -> Stream | None:
    """The stream inside of which the calling thread is; None for a run in the caller's own thread."""
    return next((stream for stream in tuple(context.streams) if stream.queue.runs_here()), None)


# ---- what failed -----------------------------------------------------------------------------------------------------


@dataclass
class FailedNode:
    """A node that failed, with the memory of its inputs, and the task that the exception callback knows it by."""

    run: NodeRun
    keep: object
    task: int | None = None


class FailedNodes(Part):
    """The last nodes that failed."""

    def __init__(self) -> None:
        self.nodes: deque[FailedNode] = deque(maxlen=_KEPT)


def failed_node(owner: Process, device: int, stream: int, task: int) -> NodeRun | None:
    """The node behind a failed task.

    A stream does not tell its work the number of the task; the first question about a failure does.
    """
    for failed in reversed(owner.part(FailedNodes).nodes):
        if (failed.run.device, failed.run.stream) == (device, stream) and failed.task in (None, task):
            failed.task = task
            return failed.run
    return None


def explain(model: Model, places: tuple[list[Place], list[Place]], error: Exception) -> Exception:
    """The failure of a run, as that of a node where one can be named; the node is kept for the exception callback.

    An engine that runs the whole graph cannot describe the node, so the model runs again node by node; only when a callback
    is set that could ask, since that costs a session for each node.
    """
    owner = process()
    if not isinstance(error, NodeError) and owner.exception_callback is not None:
        error = _find_node(model, *places) or error
    if isinstance(error, NodeError):
        owner.part(FailedNodes).nodes.append(FailedNode(holding(error.run), error.keep))
    return error


def _find_node(model: Model, inputs: list[Place], outputs: list[Place]) -> NodeError | None:
    engine: Engine | None = None
    with _explaining:
        try:
            engine = choose.open_model(model.source, model.info, nodewise=True)
            assert isinstance(engine, NodewiseEngine)
            engine.subject = _Subject(model)
            engine.plan(inputs, [Place(place.name, place.dtype, None, 0) for place in outputs]).run()
        except NodeError as error:
            return error
        except NpuError as error:
            log().write(
                WARNING, f"the node that failed cannot be found: {error}", "GE", "explain", no_line("instrument.py")
            )
        finally:
            if engine is not None:
                engine.close()
    return None


def telling(run: Callable[[Any, Ready], Result]) -> Callable[[Any, Ready], Result]:
    """Let the exception callback learn of a run that failed in the caller's thread; streams tell it of their tasks."""

    @functools.wraps(run)
    def told(model: Model, ready: Ready) -> Result:
        try:
            return run(model, ready)
        except NpuError as error:
            if error.code == codes.GE_INTERNAL_ERROR and _stream_here(model.context) is None:
                _tell(model, error)
            raise

    return told


def _tell(model: Model, error: NpuError) -> None:
    owner = process()
    callback = owner.exception_callback
    if callback is None:
        return
    stream = model.context.default_stream
    task = StreamTask(stream, lambda: None, _TASK, None, None)  # a number of its own, as every run on a stream has
    for failed in reversed(owner.part(FailedNodes).nodes):
        if failed.task is None and (failed.run.device, failed.run.stream) == (model.context.device.index, stream.id):
            failed.task = task.id
            break
    callback(task.failure(error))
