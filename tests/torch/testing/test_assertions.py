"""torch_npu.testing's TestCase: what its assertions accept and refuse, its seed and its device."""

from __future__ import annotations

import random
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")

from torch_npu.testing import common_utils, testcase  # noqa: E402


class _Case(testcase.TestCase):
    def runTest(self) -> None:
        pass


case = _Case()


def ran(cls: type) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    return result


# assertRtolEqual


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones(3, np.float32), np.ones(3, np.float32)),
        (torch.ones(3), np.ones(3, np.float32)),
        ([torch.ones(2), (1, 2.0)], (torch.ones(2), [1, 2.0])),
        (1, 1.0),
        (torch.tensor([2.0]), 2),
        (np.float32(0.5), 0.5),
        (np.array([np.nan, 1.0, np.inf, -np.inf]), np.array([np.nan, 1.0, np.inf, -np.inf])),
        (np.zeros(0), np.zeros(0)),
        (torch.tensor([True, False]), torch.tensor([True, False])),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
        (
            torch.tensor([1.0, float("nan")], dtype=torch.bfloat16),
            torch.tensor([1.0, float("nan")], dtype=torch.bfloat16),
        ),
    ],
)
def test_rtol_accepts(x: Any, y: Any) -> None:
    case.assertRtolEqual(x, y)


def test_rtol_reads_tensors_of_both_devices() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    case.assertRtolEqual(x, x.npu())
    case.assertRtolEqual(x.npu(), x.detach().numpy())
    case.assertRtolEqual(x.detach().bfloat16().npu(), x.detach().bfloat16())


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        (np.ones(3), np.ones((3, 1)), "shapes differ"),
        (np.ones(3, np.float32), np.ones(3, np.float64), "dtypes differ"),
        (torch.ones(3, dtype=torch.bfloat16), torch.ones(3), "dtypes differ"),
        (np.array([np.nan, 1.0]), np.array([1.0, np.nan]), "NaN at different places"),
        (
            torch.tensor([float("nan")], dtype=torch.bfloat16),
            torch.ones(1, dtype=torch.bfloat16),
            "NaN at different places",
        ),
        (np.array([np.inf]), np.array([-np.inf]), "1 of 1 elements"),
        (np.array([np.inf]), np.array([1.0]), "1 of 1 elements"),
        (np.array([2**62, 5]), np.array([2**62, 6]), "1 of 2 elements"),
        (torch.tensor([True]), torch.tensor([False]), "1 of 1 elements"),
        ([1, 2], [1, 2, 3], "lengths differ"),
        ([1, 2], [1, 3], "element 1"),
        (np.ones(2), 1, "2 elements"),
        (torch.ones(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16) * 1.01, "not all close"),
    ],
)
def test_rtol_refuses(x: Any, y: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        case.assertRtolEqual(x, y)


def test_rtol_limits_of_one_element() -> None:
    """Near zero the absolute check decides, for large numbers the relative one: either is enough."""
    zero = np.zeros(1)
    case.assertRtolEqual(zero, zero + 0.99e-4)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(zero, zero + 1.01e-4)
    case.assertRtolEqual(zero + 1000, zero + 1000.099)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(zero + 1000, zero + 1000.102)
    case.assertRtolEqual(zero, zero + 0.01, prec=0.02)


def test_rtol_counts_elements_that_are_off() -> None:
    """10000 elements may have one wrong; a second one is too many."""
    x = np.ones(10000, np.float32)
    y = x.copy()
    y[7] = 5
    case.assertRtolEqual(x, y)
    y[8] = 5
    with pytest.raises(AssertionError, match=r"2 of 10000 elements .* allowed are 1; largest difference 4 at \(7,\)"):
        case.assertRtolEqual(x, y)


def test_rtol_fails_only_when_both_checks_do() -> None:
    """Small numbers are off relatively, large ones absolutely; each list alone stays within its limit."""
    x = np.concatenate([np.full(10000, 1e-6), np.full(10000, 1e3)])
    absolutely = x + np.where(x > 1, 0.05, 0)
    relatively = x + np.where(x < 1, 5e-5, 0)
    case.assertRtolEqual(x, absolutely)
    case.assertRtolEqual(x, relatively)
    with pytest.raises(AssertionError, match="10000 of 20000 elements"):
        case.assertRtolEqual(x, x + np.where(x > 1, 0.05, 5e-5))


def test_rtol_precision_of_half() -> None:
    x = np.ones(4, np.float16)
    y = (x.astype(np.float32) + 9e-4).astype(np.float16)
    assert not np.array_equal(x, y)
    case.assertRtolEqual(x, y)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(x, y, prec16=1e-4)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(x.astype(np.float32), y.astype(np.float32))


def test_rtol_translates_dtypes_when_asked() -> None:
    x, y = torch.full((2,), 0.1), torch.full((2,), 0.1).half()
    with pytest.raises(AssertionError, match="dtypes differ"):
        case.assertRtolEqual(x, y)
    case.assertRtolEqual(x, y, auto_trans_dtype=True)
    case.assertRtolEqual(y, x, auto_trans_dtype=True)
    case.assertRtolEqual(x, x.bfloat16(), auto_trans_dtype=True)
    case.assertRtolEqual(torch.ones(2).bfloat16(), torch.ones(2), auto_trans_dtype=True)
    with pytest.raises(AssertionError):
        case.assertRtolEqual(x + 1, y, auto_trans_dtype=True)


def test_rtol_names_what_it_cannot_compare_and_shows_the_message() -> None:
    with pytest.raises(TypeError, match="not str with str"):
        case.assertRtolEqual("a", "a")
    with pytest.raises(AssertionError, match="for dtype int8"):
        case.assertRtolEqual(1, 2, message="for dtype int8")


# assertEqual and assertNotEqual


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (1, 1.000009),
        ("a", "a"),
        (torch.ones(2), torch.ones(2) + 9e-6),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.tensor(3), 3),
        (2.0, torch.tensor([2.0])),
        ([1, torch.ones(1)], (1, torch.ones(1))),
        ({"a": torch.ones(1), "b": 2}, {"b": 2, "a": torch.ones(1)}),
        (float("nan"), float("nan")),
        (torch.tensor([float("nan"), 1]), torch.tensor([float("nan"), 1])),
        ({1, 2}, {2, 1}),
        (None, None),
        (torch.zeros(0), torch.zeros(0)),
        (np.ones(2), torch.ones(2)),
        (torch.float16, torch.float16),
        (torch.Size([1, 2]), (1, 2)),
    ],
)
def test_equal(x: Any, y: Any) -> None:
    case.assertEqual(x, y)
    with pytest.raises(AssertionError):
        case.assertNotEqual(x, y)


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        (1, 1.00002, "differ by more than 1e-05"),
        ("a", "b", "'a' and 'b'"),
        (torch.ones(2), torch.ones(2) + 2e-5, "largest difference"),
        (torch.ones(2), torch.ones(2, 1), "shapes differ"),
        (torch.tensor([0], dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8), "largest difference 255"),
        ([1, 2], [1], "lengths differ"),
        ([1, [2, 3]], [1, [2, 4]], "element 1: element 1"),
        ({"a": 1}, {"b": 1}, "keys differ"),
        ({"a": 1}, {"a": 2}, "key 'a'"),
        (torch.tensor([float("nan"), 1]), torch.tensor([1, float("nan")]), "NaN at different places"),
        (float("nan"), 1.0, "nan and 1.0"),
        (float("inf"), -float("inf"), "expected finite"),
        (None, 0, "None and 0"),
        (torch.ones(2), 1, "2 elements"),
    ],
)
def test_not_equal(x: Any, y: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        case.assertEqual(x, y)
    case.assertNotEqual(x, y)


def test_equal_infinities_need_permission() -> None:
    inf = torch.tensor([float("inf"), 1.0])
    for x in (inf, float("inf")):
        with pytest.raises(AssertionError, match="allow_inf=True"):
            case.assertEqual(x, x)
        case.assertEqual(x, x, allow_inf=True)
        with pytest.raises(AssertionError):
            case.assertEqual(x, -x, allow_inf=True)


def test_equal_options() -> None:
    case.assertEqual(1, 1.5, 0.5)
    with pytest.raises(AssertionError, match="said so"):
        case.assertEqual(1, 2, "said so")
    with pytest.raises(AssertionError, match="said so"):
        case.assertEqual(1, 2, msg="said so")
    with pytest.raises(AssertionError, match="dtypes differ"):
        case.assertEqual(torch.ones(1), torch.ones(1).double(), exact_dtype=True)
    x = torch.randn(3)
    case.assertEqual(x, x.npu())


# the other assertions


def test_warns_in_both_forms() -> None:
    def warn() -> None:
        warnings.warn("said", UserWarning, stacklevel=1)

    case.assertWarns(warn)
    case.assertWarns(UserWarning, warn)
    with case.assertWarns(UserWarning):
        warn()
    with pytest.raises(AssertionError, match="did not warn"):
        case.assertWarns(lambda: None, "msg")
    with pytest.raises(AssertionError):
        case.assertWarns(UserWarning, lambda: None)


def test_expected_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("the text")

    case.assertExpectedInline("a\nb", "a\nb")
    with pytest.raises(AssertionError):
        case.assertExpectedInline("a", "b")
    monkeypatch.setattr(sys.modules[__name__], "__file__", str(tmp_path / "test_x.py"))
    with pytest.raises(AssertionError, match="--accept"):
        case.assertExpectedRaises(ValueError, fail)
    monkeypatch.setattr(testcase.expecttest, "ACCEPT", True)
    case.assertExpectedRaises(ValueError, fail, subname="one")
    monkeypatch.setattr(testcase.expecttest, "ACCEPT", False)
    assert (tmp_path / "expect" / "_Case.runTest-one.expect").read_text() == "the text"
    case.assertExpectedRaises(ValueError, fail, subname="one")
    with pytest.raises(AssertionError):
        case.assertExpected("another text", "one")
    with pytest.raises(AssertionError, match="not raised"):
        case.assertExpectedRaises(ValueError, lambda: None)


def test_sparse_tensors() -> None:
    tensor, indices, values = case.genSparseTensor((3, 4, 2), 2, 5, True)
    assert not tensor.is_coalesced()
    assert (tuple(tensor.shape), tuple(indices.shape), tuple(values.shape)) == ((3, 4, 2), (2, 10), (10, 2))
    assert torch.allclose(case.safeCoalesce(tensor).to_dense(), tensor.to_dense())
    case.assertEqual(tensor, tensor.clone())
    with pytest.raises(AssertionError):
        case.assertEqual(tensor, tensor * 2)


def test_every_test_starts_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    class Draws(testcase.TestCase):
        def test_one(self) -> None:
            drawn.append((torch.rand(3).tolist(), torch.rand(3, device="npu").tolist(), random.random()))

        test_two = test_one

    for seed in ("", "666", "7"):
        monkeypatch.setenv("SEED", seed)
        assert ran(Draws).wasSuccessful()
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3] != drawn[4] == drawn[5]
    monkeypatch.setenv("SEED", "seven")
    assert "SEED must be a number" in ran(Draws).errors[0][1]


def test_the_class_sets_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Where(testcase.TestCase):
        def test_device(self) -> None:
            assert torch.npu.current_device() == 1
            assert common_utils.create_common_tensor([np.float32, -1, (2,)], 0, 1)[1].device == torch.device("npu:1")

    monkeypatch.setenv("SET_NPU_DEVICE", "npu:1")
    try:
        assert ran(Where).wasSuccessful()
    finally:
        torch.npu.set_device(0)
