"""Operators are found by their types: a file or a row, in one family, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from softnpu import ops
from softnpu.ops import register

FOLDER = Path(ops.__file__).parent


def test_every_type_is_there_once() -> None:
    types = ops.types()
    assert types == sorted(types)
    assert [type for type, count in Counter(types).items() if count > 1] == []


def test_every_type_is_found_under_its_own_name() -> None:
    for type in ops.types():
        operator = ops.find(type)
        assert operator is not None and operator.schema.type == type
        assert operator.lower is not None or operator.compute is not None, f"{type} has no meaning"


def test_a_file_name_stands_in_one_family() -> None:
    names = Counter(path.name for path in FOLDER.glob("*/[a-z]*.py") if path.name != "rows.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_an_operator_has_a_file_or_a_row() -> None:
    files = {path.stem for path in FOLDER.glob("*/[a-z]*.py") if path.parent.name != "common"}
    rows = {type for type in ops.types() if register.file_of(type) not in files}
    tables = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*/rows.py"))
    assert {type for type in rows if type.removeprefix("Reduce").removesuffix("D") not in tables} == set()
    assert {"Abs", "Add", "MatMul", "ReduceSumD", "TopKV2"} <= rows


def test_a_row_says_what_it_means() -> None:
    from softnpu.ops.unary.rows import ROWS

    assert all(row.meaning for row in ROWS)


@pytest.mark.parametrize(
    ("type", "file"),
    [
        ("Add", "add"),
        ("BatchMatMulV2", "batch_mat_mul_v2"),
        ("Conv2D", "conv2_d"),
        ("GEMM", "gemm"),
        ("LSTM", "lstm"),
        ("ReduceSumD", "reduce_sum_d"),
        ("While", "while_"),
    ],
)
def test_the_file_of_a_type(type: str, file: str) -> None:
    assert register.file_of(type) == file


@pytest.mark.parametrize(
    "type",
    ["", "add", "relu", "RELU", "_Relu", "Rows", "Common", "Register", "../Relu", "unary.Exp", "Relu ", "No", "²"],
)
def test_what_is_no_type_is_not_found(type: str) -> None:
    assert ops.find(type) is None
