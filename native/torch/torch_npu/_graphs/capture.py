"""Capture and replay of work on npu: `NPUGraph` and `graph`.

`recording` notes the operator calls; a replay runs them again on the same memory. Kernels that do not come through torch's
dispatcher (Inductor's compiled ones) are not recorded.
"""

from __future__ import annotations

import gc
import itertools
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from torch_npu._errors import ErrCode, graph_error
from torch_npu._graphs.recording import HostCall, Record, Recorder, replay
from torch_npu._runtime import stream_ids as ids

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


def graph_of(stream: torch.Stream) -> NPUGraph | None:
    """The graph that records what is issued to a stream."""
    return _capturing.get((stream.device_index, stream.stream_id))


def failure(text: str, code: ErrCode = ErrCode.INTERNAL) -> RuntimeError:
    return RuntimeError(text + graph_error(code))


class _NoWaits:
    """Hears of waits while a graph records: the host cannot wait for work that does not run."""

    def recorded(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def waits(self, event: torch.Event, stream: torch.Stream) -> None: ...

    def host_waits(self, what: torch.Event | torch.Stream | None) -> None:
        if is_current_stream_capturing():
            raise failure(
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
            raise failure(
                f"Unknown capture error mode. Expected one of {', '.join(_MODES)}, got {capture_error_mode}",
                ErrCode.PARAM,
            )
        if self._records is not None or self._recorder is not None:
            raise failure(
                "This NPUGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        stream = _current()
        if stream[1] & ids.EXTERNAL:
            raise failure("ExternalStream does not support capture: use a torch.npu.Stream", ErrCode.NOT_SUPPORT)
        with _lock:
            if stream in _capturing:
                raise failure(f"npu:{stream[0]} stream {stream[1]} is already capturing; end that capture first")
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
            raise failure("capture_end without capture_begin on this NPUGraph")
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
            raise failure("this NPUGraph is not capturing")
        self._recorder.records.append(call)

    def replay(self) -> None:
        """Run the recorded work on the memory it was recorded with."""
        if self._records is None:
            raise failure("Called NPUGraph::replay without a preceding successful capture.")
        replay(self._records)

    def reset(self) -> None:
        """Forget the recorded work and let go of its memory."""
        if self._recorder is not None:
            self._stop()
        self._records = None

    def pool(self) -> Pool:
        """The token of the memory pool; only after `capture_begin`."""
        if self._pool is None:
            raise failure("Called NPUGraph::pool() without a preceding successful capture.")
        return self._pool

    def update(self, cpu_update_input: list[dict[str, Any]]) -> None:
        """New host arguments for the recorded calls that have them: one dict for all of these calls, or one for each."""
        if self._records is None:
            raise failure("Called NPUGraph::update without a preceding successful capture.")
        names = {name for update in cpu_update_input for name in update}
        calls = [record for record in self._records if isinstance(record, Record)]
        records = [record for record in calls if names and record.has(names)]
        values = cpu_update_input * len(records) if len(cpu_update_input) == 1 else cpu_update_input
        if not records or len(values) != len(records):
            raise failure(
                f"{len(cpu_update_input)} updates of {sorted(names)} for {len(records)} calls that have such arguments"
            )
        for record, update in zip(records, values, strict=True):
            record.update(update)

    def debug_dump(self, debug_path: str) -> None:
        """Write the recorded calls as text, one line each."""
        if self._records is None:
            raise failure("Called NPUGraph::debug_dump without a preceding successful capture.")
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
            raise failure("a graph is being captured on the current stream; end that capture before the next begins")
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
