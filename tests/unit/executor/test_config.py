"""Configuration objects of loading and running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.base.errors import NpuError
from softnpu.executor.config import ExecConfig, LoadConfig

INVALID, NOT_SUPPORTED = 100000, 200001


def code(call: Any, *args: Any) -> int:
    with pytest.raises(NpuError) as caught:
        call(*args)
    return caught.value.code


def load(**rows: Any) -> LoadConfig:
    config = LoadConfig()
    for name, value in rows.items():
        config.set(int(name[1:]), value)
    return config


@pytest.mark.parametrize("attr", range(29))
def test_every_documented_option_is_taken(attr: int) -> None:
    config = LoadConfig()
    value: Any = "path" if attr in (2, 14) else 1
    config.set(attr, value)
    assert config.values[attr] == value


@pytest.mark.parametrize(("attr", "value"), [(29, 1), (-1, 1), (0, -1), (0, 8), (1, 0), (1, 7)], ids=str)
def test_values_out_of_range(attr: int, value: int) -> None:
    assert code(LoadConfig().set, attr, value) == INVALID


@pytest.mark.parametrize(
    ("attr", "value"), [(2, 5), (2, b"x"), (0, "1"), (3, None), (4, 1.0), (9, "x"), (0, np.array(1))]
)
def test_types(attr: int, value: Any) -> None:
    with pytest.raises(TypeError):
        LoadConfig().set(attr, value)


def test_sizes_wrap_as_unsigned() -> None:
    assert load(a4=-1).values[4] == (1 << 64) - 1


def test_the_last_setting_counts() -> None:
    config = load(a1=1, a2="a")
    config.set(2, "b")
    assert config.resolve()[1] == "b"


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ({"a1": 1, "a2": "p"}, ("file", "p", (0, 0), (0, 0), (0, 0))),
        ({"a1": 1, "a2": "p", "a7": 5, "a8": 6}, ("file", "p", (0, 0), (0, 0), (0, 0))),
        ({"a1": 2, "a2": "p", "a5": 1, "a6": 2, "a7": 3, "a8": 4}, ("file", "p", (0, 0), (3, 4), (1, 2))),
        ({"a1": 3, "a3": 9, "a4": 8}, ("memory", "", (9, 8), (0, 0), (0, 0))),
        ({"a1": 4, "a3": 9, "a4": 8, "a7": 3, "a8": 4}, ("memory", "", (9, 8), (3, 4), (0, 0))),
    ],
)
def test_what_is_loaded(rows: dict[str, Any], wanted: Any) -> None:
    assert load(**rows).resolve() == wanted


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ({}, INVALID),
        ({"a2": "p"}, INVALID),
        ({"a1": 1}, INVALID),
        ({"a1": 3, "a3": 9}, INVALID),
        ({"a1": 4, "a4": 9}, INVALID),
        ({"a1": 5, "a2": "p"}, NOT_SUPPORTED),
        ({"a1": 6}, NOT_SUPPORTED),
    ],
)
def test_what_is_missing(rows: dict[str, Any], number: int) -> None:
    assert code(load(**rows).resolve) == number


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "seconds"), [(None, None), (-1, None), (0, None), (1, 0.001), (2500, 2.5)])
def test_timeouts(value: int | None, seconds: float | None) -> None:
    config = ExecConfig()
    if value is not None:
        config.set(0, value)
    assert config.timeout == seconds


@pytest.mark.parametrize(("attr", "value"), [(4, 0), (-1, 0), (0, -2), (1, -2)])
def test_run_values_out_of_range(attr: int, value: int) -> None:
    assert code(ExecConfig().set, attr, value) == INVALID


def test_run_types() -> None:
    for value in ("1", None, 1.5):
        with pytest.raises(TypeError):
            ExecConfig().set(0, value)
