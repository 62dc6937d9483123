"""Looking into a running graph: the last messages that passed an output, or an input of the graph."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from softnpu.flow import log
from softnpu.flow.drawing.nodes import FlowData, FlowNode, FlowOutput
from softnpu.flow.engines.embedded.tapping import MORE, OFF, ON
from softnpu.flow.errors import DfException
from softnpu.flow.message import Message
from softnpu.flow.transport import wire
from softnpu.flow.transport.layout import Seat
from softnpu.flow.values import codec
from softnpu.flow.values.register import msg_type_register
from softnpu.flow.watch import probe
from softnpu.flow.watch.sources import EmbeddedSource, InlineSource, Source, source_of

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph

Place = tuple[str, int | None]  # a node (or input of the graph) and which output; None is all of them
_MOST = 4096


class Tapped:
    """One message that passed. Its value is decoded when somebody looks at it."""

    def __init__(self, place: str, output: int, instance: int, message: Message) -> None:
        self.place = place
        self.output = output
        self.instance = instance
        self.message = message
        self._value: Any = None
        self._decoded = False

    @property
    def trans_id(self) -> int:
        """Its transaction."""
        return self.message.trans_id

    @property
    def ret_code(self) -> int:
        """Not 0 if it says that its transaction failed."""
        return self.message.ret_code

    @property
    def value(self) -> Any:
        """What a function at the end of the edge would get; None for a failure and for an empty message."""
        if not self._decoded:
            self._value = codec.decode_object(self.message, msg_type_register)
            self._decoded = True
        return self._value

    def __repr__(self) -> str:
        code = f", ret_code={self.ret_code}" if self.ret_code else f", value={self.value!r}"
        return f"Tapped({self.place}:{self.output}, transaction {self.trans_id}{code})"


class Tap:
    """Keeps the last messages. A callback gets them too, in the thread that feeds, fetches or looks.

    A tap never slows a node down: what a worker makes faster than the application takes it, beyond `last` messages, is
    not seen here.
    """

    payloads = True

    def __init__(self, places: list[Place], callback: Callable[[Tapped], None] | None, last: int) -> None:
        self._places = places
        self._callback = callback
        self._last = last
        self._kept: deque[Tapped] = deque(maxlen=last)
        self._source: Source | None = None
        self._wires: list[_Wire] = []
        self._closed = False
        self.seen = 0

    # ---- looking -----------------------------------------------------------------------------------------------------

    def messages(self) -> list[Tapped]:
        """The last messages, oldest first."""
        if self._source is not None and not self._closed:
            self._source.look()
        return list(self._kept)

    def values(self) -> list[Any]:
        """Their values."""
        return [each.value for each in self.messages()]

    def __iter__(self) -> Iterator[Tapped]:
        return iter(self.messages())

    def __len__(self) -> int:
        return len(self.messages())

    # ---- the graph ---------------------------------------------------------------------------------------------------

    def attach(self, session: Any) -> None:
        """The graph runs: from now on messages come."""
        if self._closed:
            return
        self._source = source = source_of(session)
        inputs = {name: index for index, name in enumerate(source.plan.inputs)}
        if any(name in inputs for name, _ in self._places):
            probe.listen(session, self)
        nodes = {node.name: index for index, node in enumerate(source.plan.nodes)}
        for name, output in self._places:
            if name not in nodes:
                continue
            outputs = range(source.plan.nodes[nodes[name]].output_num) if output is None else (output,)
            for seat in source.seats:
                if seat.node == nodes[name]:
                    self._wires += [_wire(source, self, name, seat, each) for each in outputs]

    def fed(self, items: list[tuple[int, Message]], began: int, ended: int, code: int) -> None:
        """See Listener."""
        if code or self._source is None:
            return
        names = self._source.plan.inputs
        wanted = {name for name, _ in self._places}
        for index, message in items:
            if names[index] in wanted:
                self.deliver(Tapped(names[index], 0, 0, message))

    def fetched(self, indexes: list[int], envelope: Message | None, began: int, ended: int, code: int) -> None:
        """See Listener: of no interest here."""

    def deliver(self, tapped: Tapped) -> None:
        """A message passed."""
        self.seen += 1
        self._kept.append(tapped)
        if self._callback is not None:
            try:
                self._callback(tapped)
            except Exception as problem:
                log.error("the callback of a tap on %s: %s: %s", tapped.place, type(problem).__name__, problem)

    def close(self) -> None:
        """No more; what was kept stays."""
        if self._closed:
            return
        self._closed = True
        if self._source is not None:
            probe.ignore(self._source.session, self)
        for each in self._wires:
            each.cut()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Tap({', '.join(name for name, _ in self._places)}: {self.seen} seen, {len(self._kept)} kept)"


class _Wire:
    """From one output of one node instance to a tap."""

    def __init__(self, tap: Tap, name: str, seat: Seat, output: int) -> None:
        self._tap = tap
        self._name = name
        self.seat = seat
        self.output = output

    def pass_on(self, message: Message) -> None:
        """To the tap."""
        self._tap.deliver(Tapped(self._name, self.output, self.seat.instance, message))

    def cut(self) -> None:
        """The tap is closed."""


class _InlineWire(_Wire):
    """The session's `emit` is wrapped while there are taps."""

    def __init__(self, session: Any, tap: Tap, name: str, seat: Seat, output: int) -> None:
        super().__init__(tap, name, seat, output)
        self._session = session
        wires = session.__dict__.setdefault("_wires", [])
        wires.append(self)
        if len(wires) == 1:
            session.emit = lambda seat, output, message: _emit_inline(session, seat, output, message)

    def cut(self) -> None:
        """See _Wire."""
        wires = self._session._wires
        wires.remove(self)
        if not wires:
            del self._session.emit


def _emit_inline(session: Any, seat: int, output: int, message: Message) -> None:
    for each in tuple(session._wires):
        if (each.seat.number, each.output) == (seat, output):
            each.pass_on(codec.private(message))
    type(session).emit(session, seat, output, message)


class _EmbeddedWire(_Wire):
    """A worker sends copies, as many as are allowed; we allow more when half of them have come."""

    def __init__(self, wires: _Wires, tap: Tap, name: str, seat: Seat, output: int, last: int) -> None:
        super().__init__(tap, name, seat, output)
        self._wires = wires
        self._last = last
        self._came = 0
        self.number = wires.add(self)
        self.arm()

    def arm(self) -> None:
        """Ask for copies; again when the worker was started anew."""
        self._came = 0
        self._wires.tell(self.seat.process, ON, self.number, self.seat.number, self.output, self._last)

    def came(self, message: Message) -> None:
        """A copy."""
        self._came += 1
        if 2 * self._came >= self._last:
            self._wires.tell(self.seat.process, MORE, self.number, self._came)
            self._came = 0
        self.pass_on(message)

    def cut(self) -> None:
        """See _Wire."""
        self._wires.remove(self)
        self._wires.tell(self.seat.process, OFF, self.number)


class _Wires:
    """All wires of one embedded session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._supervisor = session.supervisor
        self._by_number: dict[int, _EmbeddedWire] = {}
        self._numbers = itertools.count(1)
        self._supervisor.on_tap = self._arrived
        self._supervisor.on_ready = self._ready

    def add(self, each: _EmbeddedWire) -> int:
        """The number of a new wire."""
        number = next(self._numbers)
        self._by_number[number] = each
        return number

    def remove(self, each: _EmbeddedWire) -> None:
        """Messages that are still on their way are dropped when they come."""
        self._by_number.pop(each.number, None)

    def tell(self, process: int, *content: Any) -> None:
        """Say something to a worker."""
        if self._session._closed:
            return
        outbox = self._supervisor.endpoint.outbox
        outbox.tell(process, wire.plain_record(wire.NOTICE, pickle.dumps(("tap", *content))))
        if not outbox.flush():
            self._supervisor.unblock()

    def _arrived(self, number: int, data: bytes) -> None:
        message = wire.read_tap(data, self._supervisor.endpoint.arenas)
        each = self._by_number.get(number)
        if each is not None:
            each.came(codec.private(message))  # a copy of our own: the worker gets its memory back

    def _ready(self, process: int) -> None:
        for each in tuple(self._by_number.values()):
            if each.seat.process == process:
                each.arm()


_first_wire = threading.Lock()


def _wire(source: Source, tap: Tap, name: str, seat: Seat, output: int) -> _Wire:
    if isinstance(source, EmbeddedSource):
        with _first_wire:
            wires = source.session.__dict__.get("_wires")
            if wires is None:
                wires = source.session._wires = _Wires(source.session)
        return _EmbeddedWire(wires, tap, name, seat, output, tap._last)
    if isinstance(source, InlineSource):
        return _InlineWire(source.session, tap, name, seat, output)
    return _Wire(tap, name, seat, output)  # nothing ever passes


def tap(
    graph: FlowGraph,
    target: FlowNode | FlowOutput | FlowData | str,
    callback: Callable[[Tapped], None] | None = None,
    last: int = 16,
) -> Tap:
    """A tap on an output, on all outputs of a node, or on an input of a graph; before or while it runs."""
    if not isinstance(last, int) or not 1 <= last <= _MOST:
        raise DfException(f"tap: last is a number of messages from 1 to {_MOST}, not {last!r}.")
    if graph._engine() == "ray":
        raise DfException("tap: the engine ray cannot show messages; use embedded or inline for it.")
    new = Tap([_place(graph, target)], callback, last)
    graph.on_session(new.attach)
    return new


def _place(graph: FlowGraph, target: Any) -> Place:
    known = {node.name: node.output_num for node in graph.nodes}
    inputs = {data.name for data in graph._input_datas}
    output = target.index if isinstance(target, FlowOutput) else None
    holder = target.node if isinstance(target, FlowOutput) else target
    name = holder if isinstance(holder, str) else getattr(holder, "name", None)
    if not isinstance(name, str) or name not in known.keys() | inputs:
        places = ", ".join([*sorted(known), *sorted(inputs)])
        raise DfException(f"tap: graph {graph.name} has no {target!r}; it has {places}.")
    return name, output
