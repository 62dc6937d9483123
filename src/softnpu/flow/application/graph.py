"""FlowGraph: a drawn graph that can be fed and fetched from."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from softnpu.flow import codes, engines, log
from softnpu.flow.application import control, feeding, options
from softnpu.flow.application.info import FlowInfo
from softnpu.flow.atomic import Taken
from softnpu.flow.drawing import naming
from softnpu.flow.drawing.nodes import FlowData, FlowNode, FlowOutput
from softnpu.flow.drawing.process_point import Plannable
from softnpu.flow.engines.outputs import Fetched
from softnpu.flow.errors import DfException
from softnpu.flow.plan import AlignRule, Plan
from softnpu.flow.planning import build, validate
from softnpu.flow.values.tensor import Tensor
from softnpu.flow.watch.watching import Watching

if TYPE_CHECKING:
    from softnpu.flow.watch.metrics import Metrics
    from softnpu.flow.watch.progress import Progress
    from softnpu.flow.watch.taps import Tap, Tapped
    from softnpu.flow.watch.view import Watch

COMPILE_ONLY = "ge.runFlag"
_STUBBORN = 10
Result = TypeVar("Result")


class FlowGraph(Plannable):
    """Nodes from outputs back to inputs; the engine starts at the first feed."""

    def __init__(
        self,
        outputs: list[FlowOutput],
        graph_options: dict[str, str] | None = None,
        name: str | None = None,
        graphpp_builder_async: bool = False,
    ) -> None:
        build.check_outputs(outputs)
        if graph_options is not None:
            options.check(graph_options)
        self._init_options = control.current_options()
        self._graph_options = graph_options or {}
        self.name = naming.others.make(naming.check(name, "FlowGraph") if name is not None else "FlowGraph")
        self._outputs = list(outputs)
        self._parallel = bool(graphpp_builder_async)
        self._drawing = build.draw(outputs, bare=self._engine() == "stub")
        self._input_datas = self._drawing.inputs
        self._output_idx_mapping = self._drawing.mapping
        self._watching = Watching(self.name, self._output_idx_mapping)
        self._align = AlignRule()
        self._catch = False
        self._n_mapping = False
        self._lock = threading.Lock()
        self._session: Any = None
        self._closed = False
        self.started = False
        control.state.graphs.append(self)

    @property
    def options(self) -> dict[str, str]:
        """Those of `init`, and over them the graph's own."""
        return {**self._init_options, **self._graph_options}

    @property
    def nodes(self) -> list[FlowNode]:
        """All nodes, from the outputs back."""
        return list(self._drawing.nodes)

    @property
    def _impl(self) -> FlowGraph:
        return self

    def _engine(self) -> str:
        return control.engine(self.options)

    # ---- settings --------------------------------------------------------------------------------------------------------

    def _changeable(self, what: str) -> None:
        if self.started:
            raise DfException(f"{what} comes before the first feed of graph {self.name}; it is running already.")

    def set_contains_n_mapping_node(self, flag: bool) -> None:
        """Say that a node does not give one output per input, so that own transaction ids are kept."""
        self._changeable("set_contains_n_mapping_node")
        self._n_mapping = bool(flag)

    def set_inputs_align_attrs(
        self, align_max_cache_num: int, align_timeout: int, dropout_when_not_align: bool = False
    ) -> None:
        """Bring messages of one transaction together at every node; 0 turns it off."""
        self._changeable("set_inputs_align_attrs")
        for value in (align_max_cache_num, align_timeout):
            if not isinstance(value, int):
                raise DfException(f"set_inputs_align_attrs takes numbers, not {value!r}.")
        rule = AlignRule(align_max_cache_num, align_timeout, bool(dropout_when_not_align))
        validate.check_align(rule)
        self._align = rule

    def set_exception_catch(self, enable: bool = False) -> None:
        """Let functions end a transaction with `raise_exception`."""
        self._changeable("set_exception_catch")
        self._catch = bool(enable)

    # ---- running ---------------------------------------------------------------------------------------------------------

    def plan(self, nested: bool = False) -> Plan:
        """The graph as engines take it; compiles model files."""
        return build.plan(
            self._drawing,
            name=self.name,
            options=self.options,
            align=self._align,
            catch=self._catch,
            n_mapping=self._n_mapping,
            parallel=self._parallel,
            bare=self._engine() == "stub",
            nested=nested,
        )

    def _start(self) -> Any:
        """The session; None when the graph is only compiled."""
        if self._session is not None:
            return self._session
        with self._lock:
            if self._closed:
                raise DfException(
                    f"Graph {self.name} was ended by df.finalize or close; draw a new one (after df.finalize: df.init first).",
                    codes.NOT_INIT,
                )
            if not self.started or (self._session is None and not self._compile_only()):
                plan = self.plan()
                if not self._compile_only():
                    session = self._begin(plan)
                    try:
                        self._watching.began(session)
                    except BaseException:
                        self._watching.ended()
                        session.close()
                        raise
                    self._session = session
                    control.finalize_at_exit()
                self.started = True
            return self._session

    def _begin(self, plan: Plan) -> Any:
        """A new session of the engine."""
        try:
            return engines.start(plan, {**plan.options, control.ENGINE: self._engine()})
        except OSError as problem:
            if problem.errno != errno.EMFILE:
                raise
            running = sum(graph._session is not None for graph in control.state.graphs)
            raise DfException(
                f"Graph {self.name} cannot be started: this process has too many open files, and {running} graph(s) are "
                "running. End those that are done with graph.close() or df.finalize(), or raise the limit (ulimit -n).",
                codes.FAILED,
            ) from problem

    def _compile_only(self) -> bool:
        return self.options.get(COMPILE_ONLY) == "0"

    def _feed(self, items: feeding.Items, wait: float | None) -> int:
        session = self._start()
        if session is None:
            return codes.SUCCESS
        return int(session.feed_many(items, wait))

    def feed_data(
        self,
        feed_dict: Mapping[FlowData, Any] | None,
        flow_info: FlowInfo | None = None,
        timeout: int = -1,
        partial_inputs: bool = False,
    ) -> int:
        """Feed tensors; anything else is made one. 0 or a code; `timeout` in ms."""
        try:
            wait = feeding.seconds(timeout)
            items = feeding.tensor_items(self._input_datas, feed_dict, flow_info, partial_inputs)
        except feeding.Refused as problem:
            return self._refuse("feed_data", problem)
        return self._feed(items, wait)

    def feed(self, feed_dict: Mapping[FlowData, Any], timeout: int = -1, partial_inputs: bool = False) -> int:
        """Feed objects of any kind. 0 or a code; `timeout` in ms."""
        try:
            wait = feeding.seconds(timeout)
            items = feeding.object_items(self._input_datas, feed_dict, partial_inputs)
        except feeding.Refused as problem:
            return self._refuse("feed", problem)
        return self._feed(items, wait)

    def fetch_data(self, indexes: Sequence[int] | None = None, timeout: int = -1) -> tuple[list[Tensor], FlowInfo, int]:
        """Tensors of the outputs (of all, or of some), what travelled with them, and 0 or a code."""
        try:
            return self._fetch("fetch_data", indexes, timeout, feeding.tensors_of)
        except feeding.Refused as problem:
            return [], FlowInfo(), self._refuse("fetch_data", problem)

    def fetch(self, indexes: Sequence[int] | None = None, timeout: int = -1) -> tuple[list[Any], int]:
        """Objects of the outputs, and 0 or a code. Nothing is aligned here."""
        try:
            return self._fetch("fetch", indexes, timeout, feeding.objects_of)
        except feeding.Refused as problem:
            return [], self._refuse("fetch", problem)

    def _fetch(self, what: str, indexes: Sequence[int] | None, timeout: int, read: Callable[..., Result]) -> Result:
        """What `read` makes of the next results. An exception out of a signal handler takes nothing away."""
        wait = feeding.seconds(timeout)
        outputs = feeding.outputs_of(indexes, self._output_idx_mapping)
        session = self._running(what)
        if session is None:
            return read([], None, codes.FAILED)
        taken: Taken = []
        fetched: Fetched | None = None
        try:
            fetched = session.fetch(outputs, wait, read is feeding.tensors_of, taken)
            if fetched[2] == codes.QUEUE_EMPTY:
                self._watching.timed_out(wait)
            return read(*fetched)
        except BaseException as problem:
            if fetched is None or not isinstance(problem, Exception) or _legible(read, fetched):
                _put_back(session, taken)
            raise

    def _running(self, what: str) -> Any:
        if self._closed:
            raise DfException(
                f"Graph {self.name} was ended by df.finalize or close; draw a new one (after df.finalize: df.init first).",
                codes.NOT_INIT,
            )
        if self._session is None:
            why = f"is only compiled ({COMPILE_ONLY} is 0)" if self._compile_only() else "was not fed yet"
            log.error("%s: graph %s %s, so nothing can come out", what, self.name, why)
        return self._session

    def _refuse(self, what: str, problem: feeding.Refused) -> int:
        log.error("%s of graph %s: %s", what, self.name, problem)
        return problem.code

    def close(self) -> None:
        """End the engine; `finalize` does it for every graph."""
        with self._lock:
            session, self._session, self._closed = self._session, None, True
        self._watching.ended()
        if session is not None:
            session.close()
        with control.state.lock:  # a notebook draws a new graph with every run of a cell: keep none that is over
            if self in control.state.graphs:
                control.state.graphs.remove(self)

    # ---- watching --------------------------------------------------------------------------------------------------------

    def on_session(self, callback: Callable[[Any], None]) -> None:
        """Call it with the running engine: now, or before the first feed."""
        self._watching.on_session(callback)

    def metrics(self) -> Metrics | None:
        """The numbers of the running graph; None before the first feed."""
        return self._watching.metrics()

    def statistics(self) -> list[dict[str, Any]]:
        """One dict for each node instance: calls, failures, rate, busy, queue, percentiles, memory and more."""
        return self._watching.statistics()

    def visualize(self, path: str | os.PathLike[str] | None = None, fmt: str = "") -> str:
        """A picture of the graph: `svg`, `dot` or `mermaid`, as text and into a file; with live numbers if it runs."""
        return self._watching.picture(self, path, fmt)

    def watch(self, refresh: float = 0.5, stream: TextIO | None = None) -> Watch:
        """`with graph.watch(): …` shows the nodes at work on a terminal; elsewhere one table at the end."""
        return self._watching.view(self, refresh, stream)

    def progress(
        self, items: Iterable[Any] | None = None, total: int | None = None, stream: TextIO | None = None
    ) -> Progress:
        """`with graph.progress(total=n): …`, or `for item in graph.progress(items): …`; nothing is shown in a pipe."""
        return self._watching.progress(self, items, total, stream)

    def tap(
        self,
        target: FlowNode | FlowOutput | FlowData | str,
        callback: Callable[[Tapped], None] | None = None,
        last: int = 16,
    ) -> Tap:
        """Keep the last messages that pass an output, all outputs of a node, or an input of the graph."""
        return self._watching.tap(self, target, callback, last)

    def report(self) -> str:
        """Where every node stands, and what holds a result back."""
        return self._watching.report()

    def __repr__(self) -> str:
        return f"FlowGraph(name={self.name!r}, nodes={[node.name for node in self._drawing.nodes]})"


def _legible(read: Callable[..., Any], fetched: Fetched) -> bool:
    """Whether an exception was not the fault of what came: that would come with it again and again."""
    try:
        read(*fetched)
    except Exception:
        return False
    return True


def _put_back(session: Any, taken: Taken) -> None:
    for _ in range(_STUBBORN):
        try:
            session.put_back(taken)
            return
        except BaseException as problem:  # one more interrupt; the one that is being raised says enough
            log.debug("put back: %r", problem)
