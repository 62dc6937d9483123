"""Shapes of single operators: unknown ranks, ranges that follow from ranges, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import acl
from softnpu.cli import atc

FLOAT, INT8, INT32, ND = 0, 2, 3, 2


def desc(dims: list[int], ranges: list[list[int]] | None = None, dtype: int = FLOAT) -> int:
    made = acl.create_tensor_desc(dtype, dims, ND)
    if ranges:
        assert acl.set_tensor_shape_range(made, ranges) == 0
    return int(made)


def inferred(op: str, *inputs: int) -> tuple[int, list[list[int]]]:
    output = acl.create_tensor_desc(FLOAT, [], ND)
    ret = acl.op.infer_shape(op, list(inputs), [], 1, [output], acl.op.create_attr())
    if ret:
        return ret, []
    return ret, [
        acl.get_tensor_desc_dim_range(output, index, 2)[0] for index in range(acl.get_tensor_desc_num_dims(output))
    ]


@pytest.mark.usefixtures("runtime")
def test_ranges_follow_from_the_ranges_of_the_inputs() -> None:
    open_ = [[2, 8], [4, 4]]
    assert inferred("Relu", desc([-1, 4], open_)) == (0, [[2, 8], [4, 4]])
    assert inferred("Add", desc([-1, 4], open_), desc([1, 4])) == (0, [[2, 8], [4, 4]])
    assert inferred("Add", desc([-1, 4]), desc([1])) == (0, [[1, -1], [4, 4]])
    assert inferred("MatMulV2", desc([-1, 4], open_), desc([4, 6])) == (0, [[2, 8], [6, 6]])


@pytest.mark.usefixtures("runtime")
def test_shapes_that_do_not_fit_are_refused() -> None:
    assert inferred("Add", desc([3, 2]), desc([4]))[0] == 100000
    assert inferred("MatMulV2", desc([2, 3]), desc([5, 4]))[0] == 100000


def operators(folder: Path, *rows: dict[str, object]) -> Path:
    (folder / "ops.json").write_text(json.dumps(rows))
    assert atc.main([f"--singleop={folder}/ops.json", f"--output={folder}/ops", "--soc_version=Ascend310P3"]) == 0
    return folder / "ops"


def buffer(array: np.ndarray) -> tuple[int, int]:
    data = array.tobytes()
    pointer, ret = acl.rt.malloc(len(data), 0)
    assert ret == 0 and acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), 1) == 0
    return pointer, acl.create_data_buffer(pointer, len(data))


@pytest.mark.usefixtures("runtime")
def test_an_unknown_rank_takes_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tensor = {"format": "ND", "shape": [-2], "type": "float"}
    assert (
        acl.op.set_model_dir(
            str(operators(tmp_path, {"op": "Sigmoid", "input_desc": [tensor], "output_desc": [tensor]}))
        )
        == 0
    )
    for shape in ((2, 3), (5,), (1, 2, 2)):
        x = np.random.default_rng(0).random(shape, np.float32)
        (_, given), (address, taken) = buffer(x), buffer(np.zeros(shape, np.float32))
        assert (
            acl.op.execute_v2("Sigmoid", [desc(list(shape))], [given], [desc([-2])], [taken], acl.op.create_attr(), 0)
            == 0
        )
        assert acl.rt.synchronize_stream(0) == 0
        found = np.frombuffer(acl.util.ptr_to_bytes(address, x.nbytes), np.float32).reshape(shape)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-6)


@pytest.mark.usefixtures("runtime")
def test_products_of_bytes_are_summed_in_int32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"format": "ND", "shape": shape, "type": word}
        for shape, word in (([2, 3], "int8"), ([3, 4], "int8"), ([2, 4], "int32"))
    ]
    assert (
        acl.op.set_model_dir(
            str(operators(tmp_path, {"op": "MatMulV2", "input_desc": rows[:2], "output_desc": rows[2:]}))
        )
        == 0
    )
    random = np.random.default_rng(1)
    a, b = random.integers(-128, 128, (2, 3), np.int8), random.integers(-128, 128, (3, 4), np.int8)
    (_, first), (_, second), (address, result) = buffer(a), buffer(b), buffer(np.zeros((2, 4), np.int32))
    descs = [desc([2, 3], dtype=INT8), desc([3, 4], dtype=INT8)]
    assert (
        acl.op.execute_v2(
            "MatMulV2", descs, [first, second], [desc([2, 4], dtype=INT32)], [result], acl.op.create_attr(), 0
        )
        == 0
    )
    assert acl.rt.synchronize_stream(0) == 0
    found = np.frombuffer(acl.util.ptr_to_bytes(address, 32), np.int32).reshape(2, 4)
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))
