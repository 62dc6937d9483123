"""Capture and replay of work on npu: `NPUGraph`, `graph`, `make_graphed_callables`, task groups.

`torch_npu._capture` records the operator calls; a replay runs them again on the same memory. Kernels that do not come through
torch's dispatcher (Inductor's compiled ones) are not recorded.
"""

from __future__ import annotations

import gc
import itertools
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from torch_npu._capture import HostCall, Record, Recorder, replay
from torch_npu._errors import ErrCode, graph_error
from torch_npu.npu import _stream_ids as ids

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]

Pool = tuple[int, int]
_MODES = ("global", "thread_local", "relaxed")
_pools = itertools.count(1)
_capturing: dict[tuple[int, int], NPUGraph] = {}
_lock = threading.Lock()


def _current() -> tuple[int, int]:
    stream = torch.accelerator.current_stream()
    return stream.device_index, stream.stream_id


def is_current_stream_capturing() -> bool:
    """Whether a graph records what is issued to the current stream."""
    return bool(_capturing) and _current() in _capturing


def current_graph() -> NPUGraph | None:
    """The graph that records what is issued to the current stream."""
    return _capturing.get(_current()) if _capturing else None


def _error(text: str, code: ErrCode = ErrCode.INTERNAL) -> RuntimeError:
    return RuntimeError(text + graph_error(code))


class _NoWaits:
    """Hears of waits while a graph records: the host cannot wait for work that does not run."""

    def recorded(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def waits(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def host_waits(self, what: torch.Event | torch.Stream | None) -> None:
        if is_current_stream_capturing():
            raise _error(
                "operation not permitted when stream is capturing: the host waits for "
                f"{'the device' if what is None else what}; synchronize before the capture or after the replay"
            )


_no_waits = _NoWaits()


def graph_pool_handle() -> Pool:
    """A token for a memory pool that graphs may share."""
    return 0, next(_pools)


class NPUGraph:
    """Recorded work. Its tensors stay where they are, so write new inputs into the old ones, then `replay`."""

    def __init__(self) -> None:
        self._records: list[Record | HostCall] | None = None
        self._recorder: Recorder | None = None
        self._stream: tuple[int, int] | None = None
        self._pool: Pool | None = None

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Record what follows on the current stream. The error mode is checked; errors are always those of this thread."""
        if capture_error_mode not in _MODES:
            raise _error(
                f"Unknown capture error mode. Expected one of {', '.join(_MODES)}, got {capture_error_mode}",
                ErrCode.PARAM,
            )
        if self._records is not None or self._recorder is not None:
            raise _error(
                "This NPUGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        stream = _current()
        if stream[1] & ids.EXTERNAL:
            raise _error("ExternalStream does not support capture: use a torch.npu.Stream", ErrCode.NOT_SUPPORT)
        with _lock:
            if stream in _capturing:
                raise _error(f"npu:{stream[0]} stream {stream[1]} is already capturing; end that capture first")
            if not _capturing:
                ids.listeners.append(_no_waits)
            _capturing[stream] = self
        self._stream, self._pool = stream, pool or graph_pool_handle()
        self._recorder = Recorder()
        self._recorder.__enter__()

    def capture_end(self) -> None:
        """Stop recording; what the recorded work changed is put back, it has not run yet."""
        recorder = self._stop()
        self._records = recorder.records

    def _stop(self) -> Recorder:
        if self._recorder is None or self._stream is None:
            raise _error("capture_end without capture_begin on this NPUGraph")
        recorder, self._recorder = self._recorder, None
        recorder.__exit__(None, None, None)
        recorder.close()
        with _lock:
            del _capturing[self._stream]
            if not _capturing:
                ids.listeners.remove(_no_waits)
        return recorder

    def add(self, call: HostCall) -> None:
        """A part of the graph that is no operator."""
        if self._recorder is None:
            raise _error("this NPUGraph is not capturing")
        self._recorder.records.append(call)

    def replay(self) -> None:
        """Run the recorded work on the memory it was recorded with."""
        if self._records is None:
            raise _error("Called NPUGraph::replay without a preceding successful capture.")
        replay(self._records)

    def reset(self) -> None:
        """Forget the recorded work and let go of its memory."""
        if self._recorder is not None:
            self._stop()
        self._records = None

    def pool(self) -> Pool:
        """The token of the memory pool; only after `capture_begin`."""
        if self._pool is None:
            raise _error("Called NPUGraph::pool() without a preceding successful capture.")
        return self._pool

    def update(self, cpu_update_input: list[dict[str, Any]]) -> None:
        """New host arguments for the recorded calls that have them: one dict for all of these calls, or one for each."""
        if self._records is None:
            raise _error("Called NPUGraph::update without a preceding successful capture.")
        names = {name for one in cpu_update_input for name in one}
        calls = [record for record in self._records if isinstance(record, Record)]
        found = [record for record in calls if names and record.has(names)]
        values = cpu_update_input * len(found) if len(cpu_update_input) == 1 else cpu_update_input
        if not found or len(values) != len(found):
            raise _error(
                f"{len(cpu_update_input)} updates of {sorted(names)} for {len(found)} calls that have such arguments"
            )
        for record, one in zip(found, values, strict=True):
            record.update(one)

    def debug_dump(self, debug_path: str) -> None:
        """Write the recorded calls as text, one line each."""
        if self._records is None:
            raise _error("Called NPUGraph::debug_dump without a preceding successful capture.")
        Path(debug_path).write_text("".join(f"{record.operator}\n" for record in self._records))

    def super_kernel_optimize(self, *options: Any, **more: Any) -> None:
        """Fusing kernels is the device compiler's matter; the recorded calls stay as they are, whatever the options."""
        del options, more


class graph:
    """`with torch.npu.graph(g):` records what happens inside into g, on a side stream."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Pool | None = None,
        stream: torch.Stream | None = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        """`auto_dispatch_capture` lets `update` reach host arguments; here it always can, so the switch changes nothing."""
        del auto_dispatch_capture
        self._graph, self._pool, self._mode = npu_graph, pool, capture_error_mode
        self._stream = torch.Stream("npu") if stream is None else stream

    def __enter__(self) -> None:
        if is_current_stream_capturing():
            raise _error("a graph is being captured on the current stream; end that capture before the next begins")
        gc.collect()
        self._before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(self._stream)
        try:
            self._graph.capture_begin(self._pool, self._mode)
        except BaseException:
            torch.accelerator.set_stream(self._before)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._graph.capture_end()
            else:
                self._graph.reset()
        finally:
            torch.accelerator.set_stream(self._before)


class _TaskGroup:
    """A part of a graph whose calls can be replaced."""

    def __init__(self, owner: NPUGraph, first: int) -> None:
        self.owner, self.first, self.last = owner, first, first


_groups: dict[int, _TaskGroup] = {}
_updates: dict[int, tuple[_TaskGroup, Recorder]] = {}


def graph_task_group_begin(stream: torch.Stream) -> None:
    """The calls from here on can be replaced later; the stream must be capturing."""
    owner = _capturing.get((stream.device_index, stream.stream_id))
    if owner is None or owner._recorder is None:
        raise _error(f"{stream} is not capturing; a task group is a part of a captured graph")
    _groups[stream.stream_id] = _TaskGroup(owner, len(owner._recorder.records))


def graph_task_group_end(stream: torch.Stream) -> _TaskGroup:
    """The handle of the group, for `graph_task_update_begin`."""
    if stream.stream_id not in _groups:
        raise _error(f"graph_task_group_end on {stream} without graph_task_group_begin")
    group = _groups.pop(stream.stream_id)
    recorder = group.owner._recorder
    if recorder is None:
        raise _error("the capture that this task group belongs to is over")
    group.last = len(recorder.records)
    return group


def graph_task_update_begin(stream: torch.Stream, handle: _TaskGroup) -> None:
    """Calls from here to the end take the places of those in the group; they must be as many."""
    recorder = Recorder()
    _updates[stream.stream_id] = (handle, recorder)
    recorder.__enter__()


def graph_task_update_end(stream: torch.Stream) -> None:
    """Put the new calls into the graph."""
    if stream.stream_id not in _updates:
        raise _error(f"graph_task_update_end on {stream} without graph_task_update_begin")
    group, recorder = _updates.pop(stream.stream_id)
    recorder.__exit__(None, None, None)
    recorder.close()
    records = group.owner._records
    calls = [one for one in (records or ())[group.first : group.last] if isinstance(one, Record)]
    changed = [one for one in recorder.records if isinstance(one, Record)]
    if records is None or len(changed) != len(calls):
        raise _error(f"a task group of {len(calls)} calls cannot be updated with {len(changed)} calls")
    for old, new in zip(calls, changed, strict=True):
        old.operator, old.args, old.kwargs = new.operator, new.args, new.kwargs
        old.fresh = {place: target for place, target in old.fresh.items() if place in new.fresh}


def super_kernel_scope_begin(scope: str, options: Any = None, stream: torch.Stream | None = None) -> None:
    """Marks kernels to be fused on a device; there is nothing to fuse here, so the marks are not kept."""
    del scope, options, stream


def super_kernel_scope_end(scope: str, stream: torch.Stream | None = None) -> None:
    """The other end of `super_kernel_scope_begin`."""
    del scope, stream


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Callables whose forward and backward are captured graphs, to be used in a training loop like the originals."""
    from torch_npu._graphed import make

    return make(callables, sample_args, num_warmup_iters, allow_unused_input, pool)
