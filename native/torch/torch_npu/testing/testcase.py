"""The test case that test files for npu derive from, and how such a file runs."""

from __future__ import annotations

import argparse
import random
import sys
import unittest
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import expecttest  # the real one or, from torch_npu.testing, its stand-in
import torch

from torch_npu import _environment
from torch_npu.testing._device import set_npu_device
from torch_npu.testing._equal import Rule
from torch_npu.testing._rtol import rtol_difference

_REPORTS = "test-reports/python-unittest"
_seed: int | None = None  # of the option --seed


def set_seed(seed: int | None = None) -> int:
    """Seed torch and random (numpy is left alone, as in the product); without a number the one of --seed or SEED."""
    if seed is None:
        seed = _environment.number("SEED", 666, 0, 2**64 - 1) if _seed is None else _seed
    torch.manual_seed(seed)
    random.seed(seed)
    return seed


class TestCase(expecttest.TestCase):  # type: ignore[misc]  # a package without types, or our stand-in for it
    """Sets the device of SET_NPU_DEVICE for the class and the seed of SEED before each test."""

    precision = 1e-5
    exact_dtype = False
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        set_npu_device()

    def setUp(self) -> None:
        super().setUp()
        set_seed()

    def assertRtolEqual(
        self,
        x: Any,
        y: Any,
        prec: float = 1e-4,
        prec16: float = 1e-3,
        auto_trans_dtype: bool = False,
        message: str | None = None,
    ) -> None:
        """Shapes, dtypes and NaN are the same, and few enough elements are off, absolutely or relatively.

        `auto_trans_dtype` brings x to the dtype of y first. float16 and bfloat16 are held to `prec16`.
        """
        reason = rtol_difference(x, y, prec, prec16, auto_trans_dtype)
        if reason is not None:
            self.fail(self._formatMessage(message, reason))

    def assertEqual(
        self,
        x: Any,
        y: Any,
        prec: float | str | None = None,
        message: str = "",
        allow_inf: bool = False,
        exact_dtype: bool | None = None,
        *,
        msg: str | None = None,
    ) -> None:
        """Equal up to `prec`, in the style of torch 1.5; infinities are a failure unless allowed. `msg` is unittest's `message`."""
        if isinstance(prec, str) and not message:
            message, prec = prec, None
        reason = self._rule(prec, allow_inf, exact_dtype).difference(x, y)
        if reason is not None:
            self.fail(self._formatMessage(message or msg, reason))

    def assertNotEqual(
        self, x: Any, y: Any, prec: float | str | None = None, message: str = "", *, msg: str | None = None
    ) -> None:
        """Different by more than `prec` somewhere, in shape or in kind."""
        if isinstance(prec, str) and not message:
            message, prec = prec, None
        if self._rule(prec, True, False).difference(x, y) is None:
            self.fail(self._formatMessage(message or msg, f"{x} and {y} are equal"))

    def _rule(self, prec: Any, allow_inf: bool, exact_dtype: bool | None) -> Rule:
        return Rule(
            self.precision if prec is None else float(prec),
            allow_inf,
            self.exact_dtype if exact_dtype is None else exact_dtype,
        )

    def assertWarns(self, expected_warning: Any, *args: Any, **kwargs: Any) -> Any:
        """unittest's form with a warning class, or the older one: a callable that has to warn, and a message."""
        if isinstance(expected_warning, (type, tuple)):
            return super().assertWarns(expected_warning, *args, **kwargs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            expected_warning()
        message = args[0] if args else kwargs.get("msg", "")
        self.assertTrue(caught, self._formatMessage(message, "the call did not warn"))
        return None

    def assertExpected(self, s: str, subname: str | None = None) -> None:
        """The text in expect/<test>[-subname].expect beside the test file; --accept writes it."""
        if not isinstance(s, str):
            raise TypeError(f"assertExpected compares text, not {type(s).__name__}")
        module = type(self).__module__
        name = self.id().removeprefix(module + ".")
        folder = Path(str(sys.modules[module].__file__)).resolve().parent / "expect"
        file = folder / f"{name}{'-' + subname if subname else ''}.expect"
        if expecttest.ACCEPT:
            folder.mkdir(exist_ok=True)
            file.write_text(s)
        elif not file.exists():
            self.fail(f"{file} does not exist; run the test with --accept to write it with this text:\n{s}")
        else:
            self.assertMultiLineEqual(file.read_text(), s)

    def assertExpectedRaises(
        self, exc_type: type[BaseException], callable: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """The call raises with the text that `assertExpected` keeps."""
        subname = kwargs.pop("subname", None)
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertExpected(str(caught.exception), subname)

    def genSparseTensor(
        self, size: Sequence[int], sparse_dim: int, nnz: int, is_uncoalesced: bool, device: Any = "cpu"
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A random sparse tensor with its indices and values; an uncoalesced one holds every index twice.

        The npu device refuses sparse tensors, so they stay on the CPU unless asked otherwise.
        """
        extent = torch.tensor(list(size[:sparse_dim]), dtype=torch.float64)
        indices = (torch.rand(sparse_dim, nnz, dtype=torch.float64) * extent.unsqueeze(1)).long()
        values = torch.randn(nnz, *size[sparse_dim:])
        if is_uncoalesced:
            indices = torch.cat([indices, indices], dim=1)
            values = torch.cat([values, torch.randn_like(values)], dim=0)
        with torch.sparse.check_sparse_tensor_invariants():  # `check_invariants=True` warns before torch 2.13
            tensor = torch.sparse_coo_tensor(indices, values, list(size)).to(device)
        return tensor, tensor._indices().clone(), tensor._values().clone()

    def safeCoalesce(self, t: torch.Tensor) -> torch.Tensor:
        """`t.coalesce()`, after checking it against sums that are made one by one."""
        coalesced = t.coalesce()
        sums: dict[tuple[int, ...], torch.Tensor] = {}
        for coordinates, value in zip(t._indices().t().tolist(), t._values(), strict=True):
            index = tuple(coordinates)
            sums[index] = sums[index] + value if index in sums else value
        order = sorted(sums)
        self.assertEqual([tuple(coordinates) for coordinates in coalesced._indices().t().tolist()], order)
        self.assertEqual(list(coalesced._values()), [sums[index] for index in order])
        return coalesced


def _own_options(argv: list[str]) -> list[str]:
    """Take out what unittest does not know, as torch's run_tests does."""
    global _seed
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--accept", action="store_true")
    options, rest = parser.parse_known_args(argv[1:])
    if options.seed is not None:
        _seed = options.seed
    if options.accept:
        expecttest.ACCEPT = True
    return [argv[0], *rest]


def run_tests(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the main module and leave with unittest's exit code. IN_CI=1 writes XML reports where xmlrunner is installed."""
    arguments = _own_options(list(sys.argv if argv is None else argv))
    if not _environment.flag("IN_CI"):
        unittest.main(argv=arguments)
        return
    try:
        import xmlrunner
    except ImportError:
        print("IN_CI=1 asks for XML reports, but xmlrunner is not installed: this run reports as text", file=sys.stderr)
        unittest.main(argv=arguments)
        return
    verbosity = 2 if {"-v", "--verbose"} & set(arguments) else 1
    unittest.main(argv=arguments, testRunner=xmlrunner.XMLTestRunner(output=_REPORTS, verbosity=verbosity))
