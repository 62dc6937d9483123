"""The graph form: values, constants, users, sorting, sweeping, and what `verify` refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.graph.ir import Constant, Graph, Node, Output, Value


def chain(*types: str) -> Graph:
    graph = Graph("g")
    value = graph.data_node("x", 0, (2, 3)).output
    for kind in types:
        value = graph.op(kind, [value]).output
    graph.outputs = [Output(value, "y")]
    return graph


# ---- values and constants --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "static"),
    [
        (0, (2, 3), 24, True),
        (1, (), 2, True),
        (9, (4, 0), 0, True),
        (0, (2, -1), 0, False),
        (0, None, 0, False),
        (12, (5,), 5, True),
    ],
)
def test_a_value_knows_its_size_when_it_is_static(dtype: int, shape: Any, size: int, static: bool) -> None:
    value = Value("v", dtype, shape)
    assert (value.bytes(), value.static) == (size, static)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_constants_of_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)
    constant = Constant.of(array)
    assert constant.shape == shape
    assert constant.array().dtype == array.dtype
    np.testing.assert_array_equal(constant.array(), array)


def test_a_constant_of_a_transposed_array() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(Constant.of(array).array(), array)


def test_a_type_that_numpy_lacks() -> None:
    with pytest.raises(TypeError, match="27"):
        Constant(27, (1,), b"\0\0").array()


def test_the_constant_behind_a_value() -> None:
    graph = chain("Relu")
    value = graph.const(np.float32([1, 2]), "c")
    assert value.const is not None and (value.dtype, value.shape) == (0, (2,))
    assert graph.inputs[0].output.const is None


# ---- building --------------------------------------------------------------------------------------------------------


def test_names_are_unique() -> None:
    graph = Graph("g")
    names = [graph.unique("a"), graph.unique("a"), graph.unique("a"), graph.unique("")]
    assert names[0] == "a" and len(set(names)) == 4 and all(names)
    graph.reserve(["b"])
    assert graph.unique("b") != "b"


def test_inputs_have_the_order_of_their_index() -> None:
    graph = Graph("g")
    first, second = graph.data_node("a", 0, (1,)), graph.data_node("b", 0, (1,))
    assert (first.attrs["index"], second.attrs["index"]) == (0, 1)
    graph.nodes.reverse()
    assert graph.inputs == [first, second]


def test_a_node_before_another() -> None:
    graph = chain("Relu", "Neg")
    value = graph.const(np.float32([1]), "c", before=graph.nodes[1])
    assert [node.type for node in graph.nodes] == ["Data", "Const", "Relu", "Neg"]
    assert value.producer is graph.nodes[1]


def test_several_outputs() -> None:
    graph = Graph("g")
    node = graph.op("Split", [graph.data_node("x", 0, (4,)).output], "s", outputs=3)
    assert len({value.name for value in node.outputs}) == 3 and node.output is node.outputs[0]
    assert all(value.producer is node for value in node.outputs)


# ---- looking and changing --------------------------------------------------------------------------------------------


def test_users_of_a_value_are_the_nodes_that_take_it() -> None:
    graph = Graph("g")
    x = graph.data_node("x", 0, (1,)).output
    both = graph.op("Add", [x, x, None])
    other = graph.op("Neg", [x])
    users = graph.users()
    assert users[x] == [both, both, other] or users[x] == [both, other]
    assert both.output not in users
    assert graph.node("Neg") is other and graph.node("nothing") is None


def test_a_replaced_value_is_gone_from_its_users() -> None:
    graph = chain("Relu", "Neg")
    x, relu, neg = graph.nodes
    users = graph.users()
    graph.replace(relu.output, x.output, users)
    assert neg.inputs == [x.output]
    assert set(map(id, users[x.output])) == {id(relu), id(neg)} and relu.output not in users
    graph.replace(neg.output, x.output)
    assert graph.outputs[0].value is x.output


def test_remove_by_node_and_by_id() -> None:
    graph = chain("Relu", "Neg")
    _, relu, neg = graph.nodes
    graph.remove({neg})
    graph.remove({id(relu)})
    assert [node.type for node in graph.nodes] == ["Data"]


def test_sweep_keeps_inputs() -> None:
    graph = chain("Relu")
    unused = graph.data_node("unused", 0, (1,))
    graph.op("Neg", [graph.op("Exp", [unused.output]).output])
    graph.const(np.float32([1]))
    assert graph.sweep() == 3
    assert [node.type for node in graph.nodes] == ["Data", "Relu", "Data"]


@pytest.mark.parametrize("seed", range(20))
def test_sort_of_shuffled_graphs(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = Graph("g")
    values = [graph.data_node("x", 0, (1,)).output]
    for _ in range(int(random.integers(2, 30))):
        picked = [values[int(i)] for i in random.integers(0, len(values), int(random.integers(1, 4)))]
        values.append(graph.op("Op", [*picked, None]).output)
    graph.outputs = [Output(values[-1], "y")]
    ordered = list(graph.nodes)
    random.shuffle(graph.nodes)  # type: ignore[arg-type]
    graph.sort()
    graph.verify()
    assert set(map(id, graph.nodes)) == set(map(id, ordered))
    again = list(graph.nodes)
    graph.sort()
    assert graph.nodes == again  # what is in order stays


def test_a_very_long_chain_sorts() -> None:
    graph = chain(*["Op"] * 5000)
    graph.nodes.reverse()
    graph.sort()
    graph.verify()


# ---- verify ----------------------------------------------------------------------------------------------------------


def twice(graph: Graph) -> None:
    graph.nodes[2].name = graph.nodes[1].name


def too_early(graph: Graph) -> None:
    graph.nodes.reverse()


def foreign_producer(graph: Graph) -> None:
    graph.nodes[1].output.producer = graph.nodes[0]


def no_output(graph: Graph) -> None:
    graph.outputs.append(Output(Value("ghost"), "ghost"))


def ghost_input(graph: Graph) -> None:
    graph.nodes[1].inputs.append(Value("ghost"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (twice, "two nodes"),
        (too_early, "before it is made"),
        (foreign_producer, "another producer"),
        (no_output, "made by no node"),
        (ghost_input, "before it is made"),
    ],
)
def test_a_graph_that_is_wrong_is_refused_with_a_word(change: Any, word: str) -> None:
    graph = chain("Relu", "Neg")
    graph.verify()
    change(graph)
    with pytest.raises(ValueError, match=word):
        graph.verify()


def test_a_node_alone_is_comparable_by_identity() -> None:
    assert Node("a", "Relu") != Node("a", "Relu")
