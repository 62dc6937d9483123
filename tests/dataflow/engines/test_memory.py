"""Memory that travels: who may look at it, when it is free again, and that nobody sees another's changes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.bodies import function
from softnpu.flow.message import ARRAY, Message, Payload
from softnpu.flow.values import codec
from softnpu.flow.values.memory import ARENA_SIZE, TOKENS, Arena, Arenas, block_view_of, rounded
from softnpu.flow.values.register import MsgTypeRegister
from softnpu.runtime.memory import segment

FRAME = 1_000_000


@pytest.fixture
def arenas() -> Iterator[Arenas]:
    yield Arenas(segment.create(4 * ARENA_SIZE), 1)
    gc.collect()


def sent(arenas: Arenas, array: np.ndarray[Any, Any]) -> Message:
    block, start, nbytes = arenas.own.put(array)
    payload = Payload(ARRAY, codec.encode_array(array).meta, [arenas.block_view(1, block, start, nbytes, 0, TOKENS)])
    return Message(payload, 65535, 1)


class Out:
    def __init__(self) -> None:
        self.owned: list[bool] = []

    def send(self, output: int, message: Message) -> None:
        self.owned.append(message.payload.owned)


@pytest.mark.parametrize(
    ("body", "owned"),
    [
        (lambda value: value, True),
        (lambda value: value[100:], True),
        (lambda value: value.reshape(1000, -1), True),
        (lambda value: value + 1, False),
        (lambda value: kept.append(value) or value, False),
        (lambda value: kept.append(value[:10]) or value, False),
        (lambda value: kept.append(value) or value[10:], False),
    ],
)
def test_only_what_nobody_else_can_see_is_passed_on_without_a_copy(arenas: Arenas, body: Any, owned: bool) -> None:
    register = MsgTypeRegister()
    call = function._caller("body", body, function._sends_one(0, None, register), register)
    out = Out()
    assert call([sent(arenas, np.zeros(FRAME, np.uint8))], out) == 0
    assert out.owned == [owned]
    kept.clear()


kept: list[Any] = []


def test_a_block_is_free_when_all_views_are_gone(arenas: Arenas) -> None:
    arena = arenas.own
    block, start, nbytes = arena.put(np.zeros(FRAME, np.uint8))
    view = arenas.block_view(1, block, start, nbytes, 0, 10)[5:].view(np.ndarray)
    other = arenas.block_view(1, block, start, nbytes, 10, TOKENS)
    assert arena.used()[1] == rounded(FRAME)
    del other
    assert arena.used()[1] == rounded(FRAME)
    part = view[::2]
    del view
    assert arena.used()[1] == rounded(FRAME)
    del part
    assert arena.used() == (rounded(FRAME), 0)
    assert arena.put(np.zeros(FRAME, np.uint8))[0] == block


def test_held_blocks_are_never_given_out_twice(arenas: Arenas) -> None:
    """Against a plain model: a random history of taking and giving back."""
    random = np.random.default_rng(7)
    held: dict[int, Any] = {}
    for step in range(3000):
        if held and random.random() < 0.49:
            value, view = held.pop(list(held)[int(random.integers(len(held)))])
            assert (view == value).all()
        else:
            view = arenas.own.allocate(int(random.choice([1, 4096, 5000, 70_000])))
            view[:] = step % 251
            held[step] = (step % 251, view)
    for value, view in held.values():
        assert (view == value).all()
    total, _ = arenas.own.used()
    assert total < 3000 * 70_000 / 4


def test_memory_goes_back_to_the_system(arenas: Arenas) -> None:
    views = [arenas.own.allocate(8 << 20) for _ in range(10)]
    for view in views:
        view[:] = 1
    del view, views
    arenas.own.trim()
    fresh = [arenas.own.allocate(8 << 20) for _ in range(10)]
    assert sum(int(each[0]) for each in fresh) <= 4  # pages that were given back read as zero


def test_sizes_are_rounded_up_a_little() -> None:
    for nbytes in [1, 4096, 4097, 10_000, 6_000_000, 123_456_789]:
        assert nbytes <= rounded(nbytes) <= max(4096, nbytes * 1.25 + 4096)


def test_an_arena_that_is_full_says_so(arenas: Arenas) -> None:
    arena: Arena = arenas.own
    with pytest.raises(MemoryError, match="arena is full"):
        arena.take(ARENA_SIZE)


def test_memory_of_another_session_is_copied(arenas: Arenas) -> None:
    other = Arenas(segment.create(4 * ARENA_SIZE), 1)
    view = block_view_of(np.ndarray((10,), np.uint8, other.own.allocate(10)))
    assert view is not None and view.home is other


def doubled_in_place(value):
    value *= 2
    return value


def total(value):
    return int(value.sum())


@pytest.mark.parametrize("size", [10, FRAME])
def test_one_reader_changes_its_array_and_the_other_does_not_see_it(engine: str, size: int) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(doubled_in_place).fnode()(data), df.pyflow(total).fnode()(data)])
    array = np.ones(size, np.int64)
    for _ in range(3):
        assert graph.feed({data: array}) == 0
        (twice, plain), code = graph.fetch(timeout=10_000)
        assert (code, plain, int(twice.sum())) == (0, size, 2 * size)
    assert (array == 1).all()


class Keeper:
    """Keeps what it passes on: changes made later by the next node must not reach it."""

    def __init__(self):
        self.kept = []

    @df.method()
    def keep(self, value):
        self.kept.append(value)
        assert all((each == 1).all() for each in self.kept)
        return value


def test_a_node_that_keeps_its_argument_is_safe_from_the_next_node(engine: str) -> None:
    data = df.FlowData()
    node = df.pyflow(Keeper).fnode()
    graph = df.FlowGraph([df.pyflow(doubled_in_place).fnode()(node.keep(data))])
    for _ in range(5):
        assert graph.feed({data: np.ones(FRAME, np.int32)}) == 0
        (value,), code = graph.fetch(timeout=10_000)
        assert code == 0 and (value == 2).all()


def test_fetched_arrays_outlive_the_graph(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(doubled_in_place).fnode()(data)])
    assert graph.feed({data: np.ones(FRAME, np.uint8)}) == 0
    (value,), code = graph.fetch(timeout=10_000)
    df.finalize()
    gc.collect()
    assert code == 0 and (value == 2).all()


def test_fetched_arrays_that_are_kept_stay_as_they_are(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(doubled_in_place).fnode()(data)])
    held = []
    for index in range(60):
        assert graph.feed({data: np.full(100_000, index, np.uint8)}) == 0
        (value,), code = graph.fetch(timeout=10_000)
        assert code == 0
        if index % 3:
            held.append((index * 2 % 256, value))
    assert all((value == expected).all() for expected, value in held)


def test_tensors_from_alloc_tensor_travel_without_a_copy(engine: str) -> None:
    data = df.FlowData()
    graph = df.FlowGraph([df.pyflow(lambda tensor: tensor).fnode()(data)])
    assert graph.feed({data: df.Tensor(np.zeros(1))}) == 0
    assert graph.fetch(timeout=10_000)[1] == 0
    tensor = df.alloc_tensor([1000, 100], df.DT_FLOAT)
    tensor.numpy()[:] = 3
    assert graph.feed({data: tensor}) == 0
    (back,), code = graph.fetch(timeout=10_000)
    assert code == 0 and (back.numpy() == 3).all()
    if engine == "embedded":
        assert np.shares_memory(back.numpy(), tensor.numpy())
