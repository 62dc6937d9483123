"""Model descriptions, from a description of inputs and outputs made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from softnpu.base.errors import NpuError
from softnpu.executor.description import MAX_NAME, ModelDesc
from softnpu.graph.inout import ModelInfo, RunInfo, TensorInfo

INVALID, LIMIT, NOT_SUPPORTED = 100000, 300000, 200001
LAST = (1 << 64) - 1
LONG = "n" * (MAX_NAME + 1)


def desc(inputs: list[TensorInfo] | None = None, outputs: list[TensorInfo] | None = None, **more: Any) -> ModelDesc:
    given = [TensorInfo("x", 0, 0, [2, 3], 24)] if inputs is None else inputs
    made = ModelDesc(number=7)
    made.info = ModelInfo(given, [TensorInfo("n:0:y", 1, 2, [2], 4)] if outputs is None else outputs, **more)
    return made


def code(call: Any, *args: Any) -> int:
    with pytest.raises(NpuError) as caught:
        call(*args)
    return caught.value.code


def test_an_empty_one() -> None:
    empty = ModelDesc()
    for call in (empty.need, empty.batches, empty.resolutions, lambda: empty.tensor("input", 0)):
        assert code(call) == INVALID


def test_tensors_by_index() -> None:
    made = desc()
    assert made.tensor("input", 0).name == "x" and made.tensor("output", 0).dtype == 1
    for word in ("input", "output"):
        assert code(made.tensor, word, 1) == INVALID
        assert code(made.tensor, word, LAST) == INVALID


@pytest.mark.parametrize(("length", "short"), [(MAX_NAME, False), (MAX_NAME + 1, True)])
def test_when_a_name_is_too_long(length: int, short: bool) -> None:
    made = desc([TensorInfo("n" * length, 0, 2, [1], 4)])
    assert made.name("input", 0) == ("acl_modelId_7_input_0" if short else "n" * length)


def test_shortened_names_do_not_clash() -> None:
    """A tensor that is really called like a shortened one keeps its name; the other gets a number behind it."""
    taken = "acl_modelId_7_input_0"
    made = desc([TensorInfo(LONG, 0, 2, [1], 4), TensorInfo(taken, 0, 2, [1], 4)])
    names = [made.name("input", index) for index in (0, 1)]
    assert names[1] == taken and names[0].startswith(f"{taken}_") and len(set(names)) == 2
    assert [made.find("input", name) for name in names] == [0, 1]
    assert [made.real_name(name) for name in names] == [LONG, taken]


def test_outputs_by_the_tensors_name() -> None:
    outputs = [TensorInfo(f"{node}:0:{name}", 0, 2, [1], 4) for node, name in (("a", "p"), ("b", "q"), ("c", "q"))]
    made = desc(outputs=outputs)
    assert made.find("output", "a:0:p") == made.find("output", "p") == 0
    assert code(made.find, "output", "q") == INVALID  # two of them
    assert code(made.find, "output", "a") == INVALID
    assert code(made.find, "input", "p") == INVALID


@pytest.mark.parametrize("count", [128, 129])
def test_limits_of_an_answer(count: int) -> None:
    made = desc([TensorInfo("x", 0, 2, [1] * count, 4)], gears=[[n] for n in range(1, count + 1)], gear_kind="batch")
    if count == 128:
        assert made.dims("input", 0)["dimCount"] == made.batches()["batchCount"] == 128
    else:
        assert code(made.dims, "input", 0) == LIMIT
        assert code(made.batches) == LIMIT


def test_ranges() -> None:
    made = desc([TensorInfo("x", 0, 2, [-1, 3], 0, [], [(1, -1), (3, 3)]), TensorInfo("z", 0, 2, [4], 16)])
    assert made.ranges(0) == {"rangeCount": 2, "range": [[1, -1], [3, 3]]}
    assert made.ranges(1) == {"rangeCount": 1, "range": [[4, 4]]}
    assert code(made.current_output_dims, 0) == NOT_SUPPORTED


def test_the_current_gear() -> None:
    class Loaded:
        id, gear = 7, 0

    made = desc(gears=[[1], [4]], gear_kind="batch", gear_outputs=[[[1]], [[4]]], run=RunInfo(largest_gear=1))
    assert made.current_output_dims(0)["dims"] == [4]
    made.model = Loaded()  # type: ignore[assignment]
    assert made.current_output_dims(0)["dims"] == [1]
    assert code(made.current_output_dims, 1) == INVALID


def test_gears_of_dims() -> None:
    made = desc(gears=[[1], [2]], gear_kind="dims", gear_inputs=[[1, 3], [2, 3]])
    assert made.gear_count(LAST) == 2
    assert [one["dims"] for one in made.gears(LAST, 2)] == [[1, 3], [2, 3]]
    assert len(made.gears(LAST, 4096)) == 2
    for count in (0, 1, 4097):
        assert code(made.gears, LAST, count) == INVALID
    assert code(made.gear_count, 0) == INVALID
    assert made.batches()["batchCount"] == made.resolutions()["hwCount"] == 0


def test_answers_are_copies() -> None:
    made = desc()
    made.dims("input", 0)["dims"].append(99)
    assert made.dims("input", 0)["dims"] == [2, 3]


def test_dims_of_the_memory_under_static_aipp() -> None:
    made = desc([TensorInfo("x", 4, 1, [1, 8, 8, 3], 96, [1, 12, 8, 1])])
    assert made.dims("input", 0)["dims"] == [1, 8, 8, 3]
    assert made.input_dims_v2(0)["dims"] == [1, 12, 8, 1]
