"""acl.mdl: model descriptions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import acl
from tests.faces.acl.models.support import INVALID, KERNEL, LONG, NOT_SUPPORTED, describe, host, load, om
from tests.support import message, ok

ID, LIMIT, STALE = 145003, 300000, 107000
LAST = (1 << 64) - 1
NCHW, ND = 0, 2


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def from_file(name: str) -> int:
    desc: int = acl.mdl.create_desc()
    assert acl.mdl.get_desc_from_file(desc, str(om(name))) == 0
    return desc


def from_memory(name: str) -> int:
    desc: int = acl.mdl.create_desc()
    data = om(name).read_bytes()
    assert acl.mdl.get_desc_from_mem(desc, host(data), len(data)) == 0
    return desc


SOURCES = {"loaded": lambda name: describe(load(name)), "file": from_file, "memory": from_memory}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> Any:
    """A description of a model by its name, obtained in each of the three ways."""
    return SOURCES[request.param]


# ---- fixed shapes ----------------------------------------------------------------------------------------------------


def test_a_plain_model_tells_its_inputs_and_outputs(source: Any) -> None:
    desc, mdl = source("two"), acl.mdl
    assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (2, 2)
    assert [mdl.get_input_size_by_index(desc, i) for i in (0, 1)] == [24, 12]
    assert [mdl.get_output_size_by_index(desc, i) for i in (0, 1)] == [24, 32]
    assert [mdl.get_input_name_by_index(desc, i) for i in (0, 1)] == ["a", "b"]
    assert [mdl.get_output_name_by_index(desc, i) for i in (0, 1)] == ["adder:0:sum", "dense:0:product"]
    assert [mdl.get_input_format(desc, i) for i in (0, 1)] == [ND, ND]
    assert [mdl.get_output_format(desc, i) for i in (0, 1)] == [ND, ND]
    assert mdl.get_input_dims(desc, 0) == ({"name": "a", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.get_input_dims_v2(desc, 1) == ({"name": "b", "dimCount": 1, "dims": [3]}, 0)
    assert mdl.get_output_dims(desc, 1) == ({"name": "dense:0:product", "dimCount": 2, "dims": [2, 4]}, 0)
    assert mdl.get_cur_output_dims(desc, 0) == ({"name": "adder:0:sum", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[2, 2], [3, 3]]}, 0)
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 0, "hw": []}, 0)
    assert mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
    assert mdl.get_input_dynamic_dims(desc, -1, 0) == ([], 0)
    assert mdl.destroy_desc(desc) == 0


def test_pictures_have_the_format_of_the_model() -> None:
    desc = describe(load("conv"))
    assert acl.mdl.get_input_format(desc, 0) == NCHW
    assert acl.mdl.get_input_size_by_index(desc, 0) == 4 * 3 * 6 * 6
    assert acl.mdl.get_output_size_by_index(desc, 0) == 4 * len(KERNEL) * 6 * 6


def test_every_data_type_has_its_number_and_size() -> None:
    desc = describe(load("types"))
    numbers = [0, 1, 11, 2, 6, 3, 9, 4, 7, 8, 10, 12]
    count = acl.mdl.get_num_inputs(desc)
    assert [acl.mdl.get_input_data_type(desc, i) for i in range(count)] == numbers
    assert [acl.mdl.get_output_data_type(desc, i) for i in range(count)] == numbers
    words = ["f4", "f2", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
    assert [acl.mdl.get_input_size_by_index(desc, i) for i in range(count)] == [3 * np.dtype(w).itemsize for w in words]


def test_inputs_and_outputs_are_found_by_name(source: Any) -> None:
    desc = source("two")
    assert acl.mdl.get_input_index_by_name(desc, "a") == (0, 0)
    assert acl.mdl.get_input_index_by_name(desc, "b") == (1, 0)
    assert acl.mdl.get_output_index_by_name(desc, "dense:0:product") == (1, 0)
    assert acl.mdl.get_output_index_by_name(desc, "product") == (1, 0)  # the tensor alone is understood as well
    for call in (acl.mdl.get_input_index_by_name, acl.mdl.get_output_index_by_name):
        assert call(desc, "nothing") == (0, INVALID)
        assert "'nothing'" in message()
        assert call(desc, "") == (0, INVALID)


@pytest.mark.parametrize("index", [2, 100, LAST, -1])
def test_an_index_out_of_range(index: int) -> None:
    desc, mdl = describe(load("two")), acl.mdl
    for word in ("input", "output"):
        assert getattr(mdl, f"get_{word}_size_by_index")(desc, index) == 0
        assert getattr(mdl, f"get_{word}_name_by_index")(desc, index) == ""
        assert getattr(mdl, f"get_{word}_format")(desc, index) == -1
        assert getattr(mdl, f"get_{word}_data_type")(desc, index) == -1
        assert getattr(mdl, f"get_{word}_dims")(desc, index) == ({}, INVALID)
    assert mdl.get_input_dims_v2(desc, index) == ({}, INVALID)
    assert mdl.get_cur_output_dims(desc, index) == ({}, INVALID)
    assert mdl.get_input_dims_range(desc, index) == ({}, INVALID)


# ---- names that are too long -----------------------------------------------------------------------------------------


def test_names_that_are_too_long_are_replaced() -> None:
    load("two")
    number = load("long")
    desc = describe(number)
    short = f"acl_modelId_{number}_input_0"
    assert acl.mdl.get_input_name_by_index(desc, 0) == short
    assert acl.mdl.get_input_dims(desc, 0)[0]["name"] == short
    assert acl.mdl.get_output_name_by_index(desc, 0) == f"acl_modelId_{number}_output_0"
    assert acl.mdl.get_input_index_by_name(desc, short) == (0, 0)
    assert acl.mdl.get_input_index_by_name(desc, LONG) == (0, 0)
    assert acl.mdl.get_tensor_real_name(desc, short) == LONG
    assert acl.mdl.get_tensor_real_name(desc, LONG) == LONG
    assert acl.mdl.get_tensor_real_name(desc, f"acl_modelId_{number}_output_0").endswith("y" * 200)


def test_real_names_of_short_ones() -> None:
    desc = describe(load("two"))
    assert acl.mdl.get_tensor_real_name(desc, "a") == "a"
    assert acl.mdl.get_tensor_real_name(desc, "adder:0:sum") == "adder:0:sum"
    assert acl.mdl.get_tensor_real_name(desc, "nothing") is None


# ---- original operators ----------------------------------------------------------------------------------------------


def test_a_fused_operator_tells_its_original_names(source: Any) -> None:
    """A node that stands for two of the model's names them with their lengths; one that stands for itself has none."""
    desc = source("fused")
    texts = [acl.mdl.get_op_attr(desc, name, "_datadump_original_op_names") for name in ("conv1", "relu", "conv1relu")]
    told = [text for text in texts if text]
    assert len(told) == 1
    assert re.findall(r"\[(\d+)\]([a-z0-9]+)", told[0]) == [("5", "conv1"), ("4", "relu")]
    assert acl.mdl.get_op_attr(source("two"), "adder", "_datadump_original_op_names") == ""


def test_other_attributes_cannot_be_asked() -> None:
    desc = describe(load("two"))
    assert acl.mdl.get_op_attr(desc, "adder", "strides") == ""
    assert acl.mdl.get_op_attr(desc, "no_such_operator", "_datadump_original_op_names") == ""
    assert "no_such_operator" in message()


def test_operator_descriptions_without_a_failure() -> None:
    answer = acl.mdl.create_and_get_op_desc(0, 0, 0, 256)
    assert len(answer) == 6 and answer[-1] != 0 and answer[:5] == ("", 0, 0, 0, 0)


# ---- open shapes -----------------------------------------------------------------------------------------------------


def test_gears_of_batches_are_told(source: Any) -> None:
    desc, mdl = source("batch"), acl.mdl
    assert mdl.get_num_inputs(desc) == 2
    assert mdl.get_input_name_by_index(desc, 1) == "ascend_mbatch_shape_data"
    assert mdl.get_input_dims(desc, 0)[0]["dims"] == [-1, 3, 4, 4]
    assert mdl.get_input_size_by_index(desc, 0) == 4 * (4 * 3 * 4 * 4)
    assert mdl.get_output_size_by_index(desc, 0) == 4 * (4 * 2 * 4 * 4)
    assert mdl.get_input_size_by_index(desc, 1) >= 4
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0)
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 0, "hw": []}, 0)
    assert mdl.get_cur_output_dims(desc, 0) == ({"name": "conv:0:y", "dimCount": 4, "dims": [4, 2, 4, 4]}, 0)
    assert mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)


def test_gears_of_resolutions_are_told(source: Any) -> None:
    desc, mdl = source("hw"), acl.mdl
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 3, "hw": [[4, 6], [8, 8], [6, 4]]}, 0)
    assert mdl.get_dynamic_hw(desc, 5) == mdl.get_dynamic_hw(desc, -1)  # the index is ignored
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert mdl.get_input_dims(desc, 0)[0]["dims"] == [1, 3, -1, -1]
    assert mdl.get_input_size_by_index(desc, 0) == 4 * 3 * 8 * 8
    assert mdl.get_cur_output_dims(desc, 0)[0]["dims"] == [1, 2, 8, 8]


def test_gears_of_dims_are_told(source: Any) -> None:
    desc, mdl = source("dims"), acl.mdl
    assert mdl.get_input_dynamic_gear_count(desc, -1) == (2, 0)
    wanted = [{"name": "", "dimCount": 3, "dims": dims} for dims in ([2, 3, 3], [4, 5, 5])]
    for count in (2, 3, 4096):
        assert mdl.get_input_dynamic_dims(desc, -1, count) == (wanted, 0)
    for count in (0, 1, 4097):
        gears, ret = mdl.get_input_dynamic_dims(desc, -1, count)
        assert ret == INVALID and not gears
    for index in (0, 1, 7):
        assert mdl.get_input_dynamic_gear_count(desc, index) == (0, INVALID)
        assert mdl.get_input_dynamic_dims(desc, index, 2)[1] == INVALID
    assert mdl.get_cur_output_dims(desc, 1)[0]["dims"] == [4]


def test_ranges_of_dims_are_told(source: Any) -> None:
    desc, mdl = source("range"), acl.mdl
    assert mdl.get_num_inputs(desc) == 2
    assert [mdl.get_input_size_by_index(desc, i) for i in (0, 1)] == [0, 0]
    assert [mdl.get_output_size_by_index(desc, i) for i in (0, 1)] == [0, 0]
    assert mdl.get_input_dims(desc, 0)[0]["dims"] == [-1, -1]
    assert mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[1, 4], [2, 6]]}, 0)
    assert mdl.get_input_dims_range(desc, 1) == ({"rangeCount": 1, "range": [[2, 6]]}, 0)
    assert mdl.get_cur_output_dims(desc, 0) == ({}, NOT_SUPPORTED)


def test_an_unbounded_range_is_told() -> None:
    ranges = ok(acl.mdl.get_input_dims_range(describe(load("unbounded")), 0))
    (low, high), fixed = ranges["range"]
    assert low in (0, 1) and high == -1 and fixed == [3, 3]


# ---- handles and failures --------------------------------------------------------------------------------------------


def test_an_empty_description_answers_nothing() -> None:
    desc, mdl = acl.mdl.create_desc(), acl.mdl
    assert type(desc) is int and desc > 0
    assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (0, 0)
    assert mdl.get_input_dims(desc, 0) == ({}, INVALID)
    assert mdl.get_dynamic_batch(desc) == ({}, INVALID)
    assert "get_desc" in message()


def test_a_description_can_be_filled_again() -> None:
    desc = describe(load("two"))
    ok(acl.mdl.get_desc(desc, load("relu")))
    assert acl.mdl.get_num_inputs(desc) == 1


def test_null_and_destroyed_descriptions() -> None:
    mdl = acl.mdl
    gone = mdl.create_desc()
    assert mdl.destroy_desc(gone) == 0
    for desc, code in ((0, INVALID), (gone, STALE)):
        assert mdl.destroy_desc(desc) == code
        assert mdl.get_desc(desc, load("two")) == code
        assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (0, 0)
        assert mdl.get_input_size_by_index(desc, 0) == 0
        assert mdl.get_input_name_by_index(desc, 0) == ""
        assert mdl.get_input_format(desc, 0) == -1
        assert mdl.get_input_dims(desc, 0) == ({}, code)
        assert mdl.get_input_index_by_name(desc, "a") == (0, code)


def test_failures_of_get_desc(tmp_path: Any) -> None:
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc(desc, 55) == ID
    assert acl.mdl.get_desc_from_file(desc, str(tmp_path / "no.om")) == 145002
    data = om("two").read_bytes()[:300]
    assert acl.mdl.get_desc_from_mem(desc, host(data), len(data)) == 145006
    assert acl.mdl.get_desc_from_mem(desc, 0, 0) == INVALID
    assert acl.mdl.get_num_inputs(desc) == 0  # nothing of a failed call stays


def test_too_many_dims_for_an_answer() -> None:
    from softnpu.graph.inout import ModelInfo, TensorInfo
    from softnpu.runtime.process import process

    desc = acl.mdl.create_desc()
    many = ModelInfo([TensorInfo("x", 0, ND, [1] * 129, 4)], [], gears=[[n] for n in range(1, 130)], gear_kind="batch")
    process().handles.get("model_desc", desc).info = many
    assert acl.mdl.get_input_dims(desc, 0) == ({}, LIMIT)
    assert acl.mdl.get_dynamic_batch(desc) == ({}, LIMIT)
    many.gear_kind = "hw"
    assert acl.mdl.get_dynamic_hw(desc, -1) == ({}, LIMIT)
