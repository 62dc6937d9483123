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
    tensors = [TensorInfo("x", 0, 0, [2, 3], 24)] if inputs is None else inputs
    description = ModelDesc(number=7)
    description.info = ModelInfo(tensors, [TensorInfo("n:0:y", 1, 2, [2], 4)] if outputs is None else outputs, **more)
    return description


def code(call: Any, *args: Any) -> int:
    with pytest.raises(NpuError) as caught:
        call(*args)
    return caught.value.code


def test_an_empty_one() -> None:
    empty = ModelDesc()
    for call in (empty.need, empty.batches, empty.resolutions, lambda: empty.tensor("input", 0)):
        assert code(call) == INVALID


def test_tensors_by_index() -> None:
    description = desc()
    assert description.tensor("input", 0).name == "x" and description.tensor("output", 0).dtype == 1
    for side in ("input", "output"):
        assert code(description.tensor, side, 1) == INVALID
        assert code(description.tensor, side, LAST) == INVALID


@pytest.mark.parametrize(("length", "short"), [(MAX_NAME, False), (MAX_NAME + 1, True)])
def test_when_a_name_is_too_long(length: int, short: bool) -> None:
    description = desc([TensorInfo("n" * length, 0, 2, [1], 4)])
    assert description.name("input", 0) == ("acl_modelId_7_input_0" if short else "n" * length)


def test_shortened_names_do_not_clash() -> None:
    """A tensor that is really called like a shortened one keeps its name; the other gets a number behind it."""
    taken = "acl_modelId_7_input_0"
    description = desc([TensorInfo(LONG, 0, 2, [1], 4), TensorInfo(taken, 0, 2, [1], 4)])
    names = [description.name("input", index) for index in (0, 1)]
    assert names[1] == taken and names[0].startswith(f"{taken}_") and len(set(names)) == 2
    assert [description.find("input", name) for name in names] == [0, 1]
    assert [description.real_name(name) for name in names] == [LONG, taken]


def test_outputs_by_the_tensors_name() -> None:
    outputs = [TensorInfo(f"{node}:0:{name}", 0, 2, [1], 4) for node, name in (("a", "p"), ("b", "q"), ("c", "q"))]
    description = desc(outputs=outputs)
    assert description.find("output", "a:0:p") == description.find("output", "p") == 0
    assert code(description.find, "output", "q") == INVALID  # two of them
    assert code(description.find, "output", "a") == INVALID
    assert code(description.find, "input", "p") == INVALID


@pytest.mark.parametrize("count", [128, 129])
def test_limits_of_an_answer(count: int) -> None:
    description = desc(
        [TensorInfo("x", 0, 2, [1] * count, 4)], gears=[[n] for n in range(1, count + 1)], gear_kind="batch"
    )
    if count == 128:
        assert description.dims("input", 0)["dimCount"] == description.batches()["batchCount"] == 128
    else:
        assert code(description.dims, "input", 0) == LIMIT
        assert code(description.batches) == LIMIT


def test_ranges() -> None:
    description = desc([TensorInfo("x", 0, 2, [-1, 3], 0, [], [(1, -1), (3, 3)]), TensorInfo("z", 0, 2, [4], 16)])
    assert description.ranges(0) == {"rangeCount": 2, "range": [[1, -1], [3, 3]]}
    assert description.ranges(1) == {"rangeCount": 1, "range": [[4, 4]]}
    assert code(description.current_output_dims, 0) == NOT_SUPPORTED


def test_the_current_gear() -> None:
    class Loaded:
        id, gear = 7, 0

    description = desc(gears=[[1], [4]], gear_kind="batch", gear_outputs=[[[1]], [[4]]], run=RunInfo(largest_gear=1))
    assert description.current_output_dims(0)["dims"] == [4]
    description.model = Loaded()  # type: ignore[assignment]
    assert description.current_output_dims(0)["dims"] == [1]
    assert code(description.current_output_dims, 1) == INVALID


def test_gears_of_dims() -> None:
    description = desc(gears=[[1], [2]], gear_kind="dims", gear_inputs=[[1, 3], [2, 3]])
    assert description.gear_count(LAST) == 2
    assert [gear["dims"] for gear in description.gears(LAST, 2)] == [[1, 3], [2, 3]]
    assert len(description.gears(LAST, 4096)) == 2
    for count in (0, 1, 4097):
        assert code(description.gears, LAST, count) == INVALID
    assert code(description.gear_count, 0) == INVALID
    assert description.batches()["batchCount"] == description.resolutions()["hwCount"] == 0


def test_answers_are_copies() -> None:
    description = desc()
    description.dims("input", 0)["dims"].append(99)
    assert description.dims("input", 0)["dims"] == [2, 3]


def test_dims_of_the_memory_under_static_aipp() -> None:
    description = desc([TensorInfo("x", 4, 1, [1, 8, 8, 3], 96, [1, 12, 8, 1])])
    assert description.dims("input", 0)["dims"] == [1, 8, 8, 3]
    assert description.input_dims_v2(0)["dims"] == [1, 12, 8, 1]
