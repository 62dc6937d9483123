"""Why nothing comes out: where every node stands, and what that means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from softnpu.flow import log
from softnpu.flow.plan import INPUT, Port
from softnpu.flow.running import cells
from softnpu.flow.transport.layout import APPLICATION, Channel
from softnpu.flow.watch.metrics import Metrics, Row
from softnpu.flow.watch.sources import Source
from softnpu.flow.watch.view import plain
from softnpu.flow.watch.words import duration

_LONG = 1.0  # seconds in one call that are worth a sentence
_PATIENCE = 1.0  # a fetch that waited less is somebody who polls
_QUIET = 30.0  # seconds between reports of one graph
_told: dict[int, float] = {}


def report(session: Any, metrics: Metrics | None = None, outputs: Sequence[int] = ()) -> str:
    """The table of all nodes and a sentence about each thing that holds a result back.

    `outputs` says which output of the engine each one of the program is.
    """
    metrics = metrics or Metrics(session)
    source = metrics.source
    rows = metrics.rows()
    held = [*_failure(source), *_nodes(source, rows), *_outputs(source, outputs)]
    sentences = [*(held or [_nothing(source, rows)]), *_past(source, rows)]
    head = f"graph {source.plan.name}, engine {source.engine}, {len(source.plan.nodes)} node(s)"
    return "\n".join([head, plain(rows), *(f"- {sentence}" for sentence in sentences)])


def timed_out(session: Any, waited: float, metrics: Metrics | None = None, outputs: Sequence[int] = ()) -> None:
    """A fetch waited in vain: say why, but not to somebody who polls, and not again and again."""
    now = time.monotonic()
    if waited < _PATIENCE or now - _told.get(id(session), -_QUIET) < _QUIET:
        return
    _told[id(session)] = now
    while len(_told) > 64:
        del _told[next(iter(_told))]
    log.error("nothing came out within %s (207013):\n%s", duration(waited), report(session, metrics, outputs))


def _failure(source: Source) -> list[str]:
    text = source.failure()
    return [f"the graph has ended: {text}"] if text else []


def _nodes(source: Source, rows: list[Row]) -> list[str]:
    sentences = []
    for seat, row in zip(source.seats, rows, strict=True):
        node = source.plan.nodes[seat.node]
        name = _name(source, row)
        stream = any(function.stream for function in node.functions)
        if row.state == cells.STATES[cells.CALLING] and not stream and row.since > _LONG:
            waiting = f"; {row.queue} message(s) wait for it" if row.queue else ""
            sentences.append(
                f"{name} has been inside {row.function} for {duration(row.since)}, transaction {row.trans_id}{waiting}"
            )
        elif row.state == cells.STATES[cells.STOPPED]:
            sentences.append(f"{name} has stopped: a function of it failed, and softnpu.flow.strict is on")
        elif row.state == cells.STATES[cells.STARTING]:
            sentences.append(f"{name} is still being set up")
        else:
            sentences += [f"{name} {text}" for text in _held_up(source, seat.number) or _missing(source, seat.number)]
    return sentences


def _name(source: Source, row: Row) -> str:
    several = any(each.name == row.node and len(each.instances) > 1 for each in source.plan.nodes)
    return f"node {row.node}" + (f" #{row.instance}" if several else "")


def _past(source: Source, rows: list[Row]) -> list[str]:
    """What went wrong before. It explains results that are missing, but nothing waits for it now."""
    sentences = []
    for row in rows:
        name = _name(source, row)
        if row.failures:
            sentences.append(f"{name}: {row.failures} call(s) failed; the log says why, a fetch gives their codes")
        if row.dropped:
            sentences.append(f"{name}: {row.dropped} message(s) were given up, its queue keeps only the newest")
        if row.restarts:
            sentences.append(f"{name}: its process ended and was started again, {row.restarts} time(s)")
    return sentences


def _held_up(source: Source, seat: int) -> list[str]:
    """Whether the results of a node have nowhere to go."""
    instance = source.layout.seats[seat]
    for output in range(source.plan.nodes[instance.node].output_num):
        for group in source.layout.routes[seat, output]:
            for number in group:
                channel = source.layout.channels[number]
                if not channel.overwrite and source.depth(channel) >= channel.depth:
                    return [f"waits for room: {_receiver(source, channel)} has {source.depth(channel)} message(s)"]
    return []


def _receiver(source: Source, channel: Channel) -> str:
    if channel.runner < 0:
        return "an output of the graph, which nobody fetches,"
    return f"the queue of node {source.plan.nodes[source.layout.seats[channel.runner].node].name}"


def _missing(source: Source, seat: int) -> list[str]:
    """Inputs that wait for others."""
    instance = source.layout.seats[seat]
    node = source.plan.nodes[instance.node]
    waiting = _by_input(source, seat)
    sentences = []
    for function in node.functions:
        have = [index for index in function.inputs if waiting.get(index, 0) > 0]
        lack = [index for index in function.inputs if not waiting.get(index, 0)]
        if have and lack and not function.stream:
            counts = ", ".join(f"input {index} has {waiting[index]}" for index in have)
            names = ", ".join(f"input {index} (from {_sender(source, Port(instance.node, index))})" for index in lack)
            sentences.append(f"waits for {names} to call {function.name}; {counts} message(s)")
    return sentences


def _by_input(source: Source, seat: int) -> dict[int, int]:
    """Messages of each input that wait; with alignment they wait in a cache, so that the counts are differences."""
    waiting: dict[int, int] = {}
    taken: dict[int, int] = {}
    for channel in source.into(seat):
        waiting[channel.index] = waiting.get(channel.index, 0) + source.depth(channel)
        taken[channel.index] = taken.get(channel.index, 0) + (source.taken(channel) or 0)
    if source.plan.align.cache and taken:
        fewest = min(taken.values())
        return {index: waiting[index] + taken[index] - fewest for index in waiting}
    return waiting


def _sender(source: Source, port: Port) -> str:
    for start, ends in source.plan.edges.items():
        if port in ends:
            if start.node == INPUT:
                return f"the application, {source.plan.inputs[start.index]}"
            return f"node {source.plan.nodes[start.node].name}"
    return "nobody"


def _outputs(source: Source, numbers: Sequence[int]) -> list[str]:
    results = [0] * len(source.plan.outputs)
    for channel in source.into(-1):
        results[channel.index] += source.depth(channel)
    waiting = {number: results[engine_index] for number, engine_index in enumerate(numbers or range(len(results)))}
    have = {index: count for index, count in waiting.items() if count}
    lack = [str(index) for index, count in waiting.items() if not count]
    if have and lack:
        counts = ", ".join(f"output {index} has {count}" for index, count in have.items())
        return [f"{counts} result(s), output {', '.join(lack)} none; a fetch of several waits for all of them"]
    return []


def _nothing(source: Source, rows: list[Row]) -> str:
    """Nobody stands."""
    waiting = sum(row.queue for row in rows)
    working = [row.node for row in rows if row.function]
    if waiting or working:
        return f"work goes on: {', '.join(working) or 'no node'} in a call, {waiting} message(s) wait in queues"
    fed = [source.sent(channel) for channel in source.layout.channels if channel.source == APPLICATION]
    known = [count for count in fed if count is not None]
    if known:
        return f"nothing is on its way: {max(known)} message(s) were fed, and everything made of them has come out"
    return "nothing is on its way: everything made of what was fed has come out"
