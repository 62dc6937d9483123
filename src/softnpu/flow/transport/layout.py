"""Who runs where: processes, and the channels between them. Plain data that every process gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softnpu.flow.plan import INPUT, CountRule, Plan, Port, TimeRule
from softnpu.flow.running import cells
from softnpu.flow.transport.channels import words_for

APPLICATION = 0  # the number of the process that feeds and fetches
_IN_A_TIME = 1024


@dataclass(frozen=True)
class Channel:
    """From one process to one input of one node instance, or to one output of the graph (runner -1)."""

    number: int
    source: int
    target: int
    runner: int
    index: int
    depth: int
    overwrite: bool


@dataclass(frozen=True)
class Seat:
    """A node instance in its process."""

    node: int
    instance: int
    process: int
    number: int  # over all processes


Groups = tuple[tuple[int, ...], ...]  # for each consumer: the channel to each of its instances


@dataclass
class Layout:
    """Everything about places that a process must know. `routes[(seat, output)]`; seat -1 is the application."""

    seats: list[Seat] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    routes: dict[tuple[int, int], Groups] = field(default_factory=dict)
    processes: int = 1
    unfinished: int = 0  # messages that a channel is meant to hold at most: in its queue, in a batch, in a group

    @cached_property
    def words(self) -> int:
        """Words of each channel."""
        return words_for(self.unfinished)

    def shared_bytes(self) -> int:
        """Bytes that all processes share beside the arenas: a row for each seat, words for each channel."""
        return cells.ROW * len(self.seats) + 8 * self.words * max(len(self.channels), 1)

    def marks(self, buffer: Any) -> memoryview:
        """The words of all channels in that memory."""
        first = cells.ROW * len(self.seats)
        return memoryview(buffer)[first : first + 8 * self.words * len(self.channels)].cast("Q")

    def seats_of(self, process: int) -> list[Seat]:
        """The node instances of a process."""
        return [seat for seat in self.seats if seat.process == process]

    def into(self, process: int) -> list[int]:
        """Channels from other processes to this one."""
        return [each.number for each in self.channels if each.target == process != each.source]

    def peers(self, process: int) -> set[int]:
        """Processes that this one writes to: with messages, with credits, and the application with notices."""
        processes = {APPLICATION}
        for channel in self.channels:
            if process in (channel.source, channel.target):
                processes |= {channel.source, channel.target}
        return processes - {process}


def arrange(plan: Plan, one_process: bool = False) -> Layout:
    """A process for each instance; nodes on one device share theirs, so that tensors stay where they are."""
    layout = Layout()
    shared: dict[tuple[int, int, int], int] = {}
    by_node: list[list[Seat]] = []
    for index, node in enumerate(plan.nodes):
        seats = []
        for instance, device in enumerate(node.instances):
            key = (device.cluster, device.server, device.device)
            if one_process:
                process = APPLICATION
            elif node.on_device and key in shared:
                process = shared[key]
            else:
                process = layout.processes
                layout.processes += 1
                if node.on_device:
                    shared[key] = process
            seats.append(Seat(index, instance, process, len(layout.seats)))
            layout.seats.append(seats[-1])
        by_node.append(seats)
    for index in range(len(plan.inputs)):
        _connect(layout, plan, by_node, Port(INPUT, index), None)
    for node_index, node in enumerate(plan.nodes):
        for output in range(node.output_num):
            for seat in by_node[node_index]:
                _connect(layout, plan, by_node, Port(node_index, output), seat)
    return layout


def _connect(layout: Layout, plan: Plan, by_node: list[list[Seat]], port: Port, seat: Seat | None) -> None:
    """The channels of one output of one instance."""
    source = APPLICATION if seat is None else seat.process
    groups = []
    for target in plan.consumers(port):
        node = plan.nodes[target.node]
        group = [
            _channel(layout, source, other.process, other.number, target.index, node.depth, node.overwrite)
            for other in by_node[target.node]
        ]
        groups.append(tuple(group))
        held = _held(node.batches.get(target.index)) + plan.align.cache
        layout.unfinished = max(layout.unfinished, node.depth + held)
    for index, output in enumerate(plan.outputs):
        if output == port:
            depth = plan.nodes[port.node].depth
            layout.unfinished = max(layout.unfinished, depth)
            groups.append((_channel(layout, source, APPLICATION, -1, index, depth, False),))
    layout.routes[(-1 if seat is None else seat.number, port.index)] = tuple(groups)


def _held(rule: CountRule | TimeRule | None) -> int:
    """Messages of a batch; nobody knows how many come in a span of time."""
    if rule is None:
        return 0
    return rule.batch_size if isinstance(rule, CountRule) else _IN_A_TIME


def _channel(layout: Layout, source: int, target: int, runner: int, index: int, depth: int, overwrite: bool) -> int:
    number = len(layout.channels)
    layout.channels.append(Channel(number, source, target, runner, index, depth, overwrite))
    return number
