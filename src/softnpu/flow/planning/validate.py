"""Whether a plan can run: everything that would show as a hang or a wrong pairing later is refused here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.plan import INPUT, AlignRule, CountRule, Node, Plan, Port, TimeRule

MAX_ALIGN_CACHE = 1024
MAX_ALIGN_TIMEOUT = 600000
MAX_COUNT_TIMEOUT = 2**32 - 1  # not included
_ROLES = ("", "scatter", "gather")


def _fail(text: str) -> NoReturn:
    raise DfException(text, codes.PARAM_INVALID)


def check(plan: Plan) -> None:
    """Raise DfException 145000 for the first thing that is wrong."""
    if not plan.outputs:
        _fail(f"graph {plan.name} has no output; pass at least one output of a node to FlowGraph")
    if not plan.inputs and not any(not each.inputs for node in plan.nodes for each in node.functions):
        _fail(f"graph {plan.name} has no input and no node that works without one; connect a FlowData")
    _check_names(plan)
    check_align(plan.align)
    for node in plan.nodes:
        _check_functions(node)
        _check_settings(node)
    producers = _check_edges(plan)
    _check_cycles(plan, producers)
    _check_catch(plan)
    _check_balance(plan, producers)


def check_align(rule: AlignRule) -> None:
    """Ranges of `set_inputs_align_attrs`."""
    if not 0 <= rule.cache <= MAX_ALIGN_CACHE:
        _fail(f"align_max_cache_num is {rule.cache}; use 0 (off) to {MAX_ALIGN_CACHE}")
    if rule.timeout != -1 and not 1 <= rule.timeout <= MAX_ALIGN_TIMEOUT:
        _fail(f"align_timeout is {rule.timeout}; use -1 (never) or 1 to {MAX_ALIGN_TIMEOUT} ms")


def check_batch(rule: CountRule | TimeRule, where: str) -> None:
    """Ranges of CountBatch and TimeBatch."""
    if isinstance(rule, CountRule):
        if rule.batch_size < 1:
            _fail(f"{where}: CountBatch has batch_size {rule.batch_size}; use 1 or more")
        if not 0 <= rule.slide_stride <= rule.batch_size:
            _fail(f"{where}: CountBatch has slide_stride {rule.slide_stride}; use 0 to batch_size, {rule.batch_size}")
        if not 0 <= rule.timeout < MAX_COUNT_TIMEOUT:
            _fail(f"{where}: CountBatch has timeout {rule.timeout}; use 0 (wait) to {MAX_COUNT_TIMEOUT - 1} ms")
        return
    if rule.time_window != -1 and rule.time_window < 1:
        _fail(f"{where}: TimeBatch has time_window {rule.time_window}; use 1 or more, or -1 (until a flag)")
    if rule.batch_dim < -1:
        _fail(f"{where}: TimeBatch has batch_dim {rule.batch_dim}; use a dimension, or -1 for a new one")


def _check_names(plan: Plan) -> None:
    owners: dict[str, int] = {}
    for number, node in enumerate(plan.nodes):
        for name in {node.name, node.alias} - {""}:
            if owners.setdefault(name, number) != number:
                _fail(f"graph {plan.name} has two nodes called {name}; give one another name or alias")


def _check_functions(node: Node) -> None:
    if not node.functions:
        _fail(f"node {node.name} has no process point; add one with add_process_point")
    owner: dict[int, str] = {}
    names = set()
    for function in node.functions:
        if function.name in names:
            _fail(f"node {node.name} has two functions called {function.name}; rename one")
        names.add(function.name)
        _check_range(node, function.name, "input", function.inputs, node.input_num)
        _check_range(node, function.name, "output", function.outputs, node.output_num)
        for index in function.inputs:
            if index in owner:
                _fail(f"node {node.name}: input {index} belongs to {owner[index]} and {function.name}; give it to one")
            owner[index] = function.name
    for index in range(node.input_num):
        if index not in owner:
            _fail(f"node {node.name}: no function takes input {index}; let one take it, or make input_num smaller")


def _check_range(node: Node, function: str, what: str, indexes: tuple[int, ...], count: int) -> None:
    for index in indexes:
        if not 0 <= index < count:
            _fail(f"node {node.name}: function {function} uses {what} {index}; the node has {count}, counted from 0")
    if len(set(indexes)) != len(indexes):
        _fail(f"node {node.name}: function {function} lists an {what} twice: {list(indexes)}")


def _check_settings(node: Node) -> None:
    for index, rule in node.batches.items():
        where = f"input {index} of node {node.name}"
        if not 0 <= index < node.input_num:
            _fail(f"{where} has a batch, but the node has {node.input_num} inputs")
        if not isinstance(rule, CountRule | TimeRule):
            _fail(f"{where} has {rule!r}; one input has one CountBatch or one TimeBatch")
        check_batch(rule, where)
    if node.depth < 1:
        _fail(f"node {node.name}: _flow_attr_depth is {node.depth}; use 2 or more")
    if node.balance not in _ROLES:
        _fail(f"node {node.name} balances by {node.balance!r}; a node either scatters or gathers, not both")
    if not node.instances:
        _fail(f"node {node.name} has no instance; give it at least one logic device")


def _name(plan: Plan, port: Port) -> str:
    if port.node == INPUT:
        return f"graph input {plan.inputs[port.index]}"
    return f"output {port.index} of node {plan.nodes[port.node].name}"


def _is_output(plan: Plan, port: Port) -> bool:
    if port.node == INPUT:
        return 0 <= port.index < len(plan.inputs)
    return 0 <= port.node < len(plan.nodes) and 0 <= port.index < plan.nodes[port.node].output_num


def _check_edges(plan: Plan) -> list[dict[int, Port]]:
    """Who feeds each input of each node."""
    producers: list[dict[int, Port]] = [{} for _ in plan.nodes]
    for source, targets in plan.edges.items():
        if not _is_output(plan, source):
            _fail(f"graph {plan.name}: an edge starts at {source}, which does not exist")
        for target in targets:
            _check_target(plan, producers, source, target)
    for port in plan.outputs:
        if port.node == INPUT or not _is_output(plan, port):
            _fail(f"graph {plan.name}: the output {port} is no output of a node")
    for node, sources in zip(plan.nodes, producers, strict=True):
        for index in range(node.input_num):
            if index not in sources:
                _fail(f"input {index} of node {node.name} is not connected; call the node with all its inputs")
    return producers


def _check_target(plan: Plan, producers: list[dict[int, Port]], source: Port, target: Port) -> None:
    if not (0 <= target.node < len(plan.nodes) and 0 <= target.index < plan.nodes[target.node].input_num):
        _fail(f"graph {plan.name}: {_name(plan, source)} goes to {target}, which does not exist")
    node = plan.nodes[target.node]
    if source.node == target.node:
        _fail(f"node {node.name} consumes its own output {source.index} on input {target.index}; a graph has no loops")
    other = producers[target.node].get(target.index)
    if other is not None:
        _fail(f"input {target.index} of node {node.name} has two sources: {_name(plan, other)}, {_name(plan, source)}")
    producers[target.node][target.index] = source


def _check_cycles(plan: Plan, producers: list[dict[int, Port]]) -> None:
    """Take away nodes that wait for nobody until none is left; what remains holds a cycle."""
    waits = [{port.node for port in taken_from.values()} - {INPUT} for taken_from in producers]
    users: list[list[int]] = [[] for _ in plan.nodes]
    for number, sources in enumerate(waits):
        for source in sources:
            users[source].append(number)
    free = [number for number, sources in enumerate(waits) if not sources]
    while free:
        done = free.pop()
        for number in users[done]:
            waits[number].discard(done)
            if not waits[number]:
                free.append(number)
    at = next((number for number, sources in enumerate(waits) if sources), None)
    if at is not None:
        names = [plan.nodes[number].name for number in _cycle(waits, at)]
        _fail(f"graph {plan.name} has a cycle: {' → '.join([*names, names[0]])}; a graph has no loops")


def _cycle(waits: list[set[int]], at: int) -> list[int]:
    """Walk against the edges among nodes that all wait: a node must come again. In the direction of the data."""
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = min(waits[at])
    cycle = list(seen)[seen[at] :][::-1]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def _batched(plan: Plan) -> Iterator[str]:
    return (f"input {index} of node {node.name}" for node in plan.nodes for index in node.batches)


def _check_catch(plan: Plan) -> None:
    if not plan.catch:
        return
    if not plan.align.cache:
        _fail(
            f"graph {plan.name}: set_exception_catch needs alignment; call set_inputs_align_attrs with a cache above 0"
        )
    where = next(_batched(plan), None)
    if where:
        _fail(f"graph {plan.name}: set_exception_catch excludes batches, but {where} has one; remove one of them")


def _check_balance(plan: Plan, producers: list[dict[int, Port]]) -> None:
    """Parts of a request carry labels, whole messages do not: they would never meet at one node."""
    for node, sources in zip(plan.nodes, producers, strict=True):
        labelled = {port: port.node != INPUT and bool(plan.nodes[port.node].balance) for port in sources.values()}
        if len(set(labelled.values())) < 2:
            continue
        balanced = next(port for port, label in labelled.items() if label)
        plain = next(port for port, label in labelled.items() if not label)
        _fail(
            f"node {node.name} is fed by {_name(plan, balanced)}, which balances, and by {_name(plan, plain)}, "
            "which does not; all producers of a node have to balance, or none"
        )
