"""Plans that cannot run are refused with 145000 and a text that names the place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from softnpu.flow.errors import DfException
from softnpu.flow.plan import AlignRule, BodySpec, CountRule, Function, Node, Plan, Port, TimeRule
from softnpu.flow.planning.validate import check


def _node(name: str, inputs: int = 1, outputs: int = 1, **more: Any) -> Node:
    functions = (Function("f", tuple(range(inputs)), tuple(range(outputs))),)
    return Node(name, inputs, outputs, more.pop("functions", functions), BodySpec("m:f"), **more)


def _plan(*nodes: Node, edges: dict[Port, tuple[Port, ...]] | None = None, **more: Any) -> Plan:
    """A chain unless edges are given."""
    if edges is None:
        edges = {Port(number - 1, 0): (Port(number, 0),) for number in range(len(nodes))}
    return Plan("g", ("x",), nodes, edges, (Port(len(nodes) - 1, 0),), **more)


def _refused(plan: Plan, *words: str) -> None:
    with pytest.raises(DfException) as caught:
        check(plan)
    assert caught.value.error_code == 145000
    for word in words:
        assert word in caught.value.message


def test_good_plans_pass() -> None:
    check(_plan(_node("a"), _node("b"), _node("c")))
    check(_plan(_node("a"), align=AlignRule(1024, 600000), catch=True))
    check(_plan(_node("a", batches={0: CountRule(4, 4, 2**32 - 2, True)})))
    check(_plan(_node("a", batches={0: TimeRule(-1, 3, True)})))
    diamond = {
        Port(-1, 0): (Port(0, 0),),
        Port(0, 0): (Port(1, 0), Port(2, 0)),
        Port(1, 0): (Port(3, 0),),
        Port(2, 0): (Port(3, 1),),
    }
    check(_plan(_node("a"), _node("b"), _node("c"), _node("d", 2), edges=diamond))


def test_a_source_needs_no_graph_input() -> None:
    node = _node("source", 0, 1)
    check(replace(_plan(node, edges={}), inputs=()))
    _refused(replace(_plan(_node("a"), edges={}), inputs=()), "no input")


def test_a_long_chain_is_no_problem() -> None:
    check(_plan(*(_node(f"n{number}") for number in range(5000))))


def test_cycle_is_named_in_the_direction_of_the_data() -> None:
    edges = {
        Port(-1, 0): (Port(0, 0),),
        Port(0, 0): (Port(1, 0),),
        Port(1, 0): (Port(2, 0), Port(4, 0)),
        Port(2, 0): (Port(3, 0),),
        Port(3, 0): (Port(1, 1),),
    }
    plan = _plan(_node("start"), _node("a", 2), _node("b"), _node("c"), _node("end"), edges=edges)
    _refused(plan, "cycle: ", "a → b → c", "no loops")


def test_a_node_may_not_consume_its_own_output() -> None:
    edges = {Port(-1, 0): (Port(0, 0),), Port(0, 0): (Port(0, 1),)}
    _refused(_plan(_node("a", 2), edges=edges), "node a consumes its own output 0 on input 1")


def test_an_unconnected_input_is_named() -> None:
    _refused(_plan(_node("a", 2)), "input 1 of node a is not connected")


def test_an_input_with_two_sources_is_refused() -> None:
    edges = {Port(-1, 0): (Port(0, 0), Port(1, 0)), Port(0, 0): (Port(1, 0),)}
    _refused(
        _plan(_node("a"), _node("b"), edges=edges),
        "input 0 of node b has two sources",
        "graph input x",
        "output 0 of node a",
    )
    _refused(_plan(_node("a"), edges={Port(-1, 0): (Port(0, 0), Port(0, 0))}), "two sources")


@pytest.mark.parametrize(
    "edges",
    [
        {Port(-1, 1): (Port(0, 0),)},
        {Port(-1, 0): (Port(1, 0),)},
        {Port(-1, 0): (Port(0, 5),)},
        {Port(-1, 0): (Port(0, 0),), Port(0, 3): (Port(0, 0),)},
        {Port(-1, 0): (Port(-1, 0),)},
        {Port(-2, 0): (Port(0, 0),)},
    ],
)
def test_edges_to_nowhere_are_refused(edges: dict[Port, tuple[Port, ...]]) -> None:
    _refused(_plan(_node("a"), edges=edges), "does not exist")


def test_a_graph_needs_outputs_that_are_outputs_of_nodes() -> None:
    _refused(replace(_plan(_node("a")), outputs=()), "no output")
    _refused(replace(_plan(_node("a")), outputs=(Port(0, 1),)), "no output of a node")
    _refused(replace(_plan(_node("a")), outputs=(Port(-1, 0),)), "no output of a node")


def test_names_and_aliases_of_nodes_are_unique() -> None:
    _refused(_plan(_node("a"), _node("a")), "two nodes called a")
    _refused(_plan(_node("a"), _node("b", alias="a")), "two nodes called a")
    check(_plan(_node("a", alias="a"), _node("b", alias="c")))


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ((), ["no process point"]),
        ((Function("f", (0,), (0,)), Function("f", (1,), (0,))), ["two functions called f"]),
        ((Function("f", (0, 1), ()), Function("h", (1,), ())), ["input 1", "f and h"]),
        ((Function("f", (0,), (0,)),), ["no function takes input 1"]),
        ((Function("f", (0, 2), (0,)),), ["uses input 2"]),
        ((Function("f", (-1, 0), (0,)),), ["uses input -1"]),
        ((Function("f", (0, 1), (1,)),), ["uses output 1"]),
        ((Function("f", (0, 1), (0, 0)),), ["lists an output twice"]),
    ],
)
def test_functions_take_every_input_once_and_stay_in_range(functions: tuple[Function, ...], words: list[str]) -> None:
    _refused(_plan(_node("a", 2, functions=functions)), "node a", *words)


def test_functions_may_share_outputs() -> None:
    functions = (Function("f", (0,), (0,)), Function("h", (1,), (0,)))
    check(replace(_plan(_node("a", 2, functions=functions), edges={Port(-1, 0): (Port(0, 0), Port(0, 1))})))


def test_catch_needs_alignment_and_excludes_batches() -> None:
    _refused(_plan(_node("a"), catch=True), "set_inputs_align_attrs")
    for rule in (CountRule(2), TimeRule(5)):
        plan = _plan(_node("a"), _node("b", batches={0: rule}), align=AlignRule(4), catch=True)
        _refused(plan, "input 0 of node b", "set_exception_catch")


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (CountRule(0), "batch_size 0"),
        (CountRule(2, -1), "slide_stride -1"),
        (CountRule(2, 3), "slide_stride 3"),
        (CountRule(2, 0, -1), "timeout -1"),
        (CountRule(2, 0, 2**32 - 1), "timeout 4294967295"),
        (TimeRule(0), "time_window 0"),
        (TimeRule(-2), "time_window -2"),
        (TimeRule(5, -2), "batch_dim -2"),
        ((CountRule(2), TimeRule(5)), "one CountBatch or one TimeBatch"),
    ],
)
def test_values_of_batches_are_checked(rule: Any, word: str) -> None:
    _refused(_plan(_node("a", batches={0: rule})), "input 0 of node a", word)


def test_a_batch_on_no_input() -> None:
    _refused(_plan(_node("a", batches={1: CountRule(2)})), "input 1 of node a", "1 inputs")


@pytest.mark.parametrize(
    "rule", [AlignRule(-1), AlignRule(1025), AlignRule(1, 0), AlignRule(1, -2), AlignRule(1, 600001)]
)
def test_values_of_alignments_are_checked(rule: AlignRule) -> None:
    _refused(_plan(_node("a"), align=rule), "align_")


def test_depth_instances_and_balance_of_a_node_are_checked() -> None:
    _refused(_plan(_node("a", depth=0)), "_flow_attr_depth is 0")
    _refused(_plan(_node("a", instances=())), "no instance")
    _refused(_plan(_node("a", balance="scatter,gather")), "not both")


def test_all_producers_balance_or_none() -> None:
    edges = {Port(-1, 0): (Port(0, 0), Port(1, 0)), Port(0, 0): (Port(2, 0),), Port(1, 0): (Port(2, 1),)}

    def plan(first: str, second: str) -> Plan:
        return _plan(_node("a", balance=first), _node("b", balance=second), _node("c", 2), edges=edges)

    check(plan("scatter", "scatter"))
    check(plan("scatter", "gather"))
    check(plan("", ""))
    _refused(plan("", "gather"), "node c", "output 0 of node b, which balances", "output 0 of node a, which does not")
    mixed = {Port(-1, 0): (Port(0, 0), Port(1, 1)), Port(0, 0): (Port(1, 0),)}
    _refused(_plan(_node("a", balance="scatter"), _node("b", 2), edges=mixed), "graph input x, which does not")
