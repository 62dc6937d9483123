"""Inputs on both devices, skips by chip and release, and what else test files for npu share.

A name that is not defined here is looked up in `torch.testing._internal.common_utils`, which is only then imported.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import torch

from torch_npu import npu
from torch_npu.npu import utils as npu_utils
from torch_npu.testing._device import get_npu_device as get_npu_device
from torch_npu.testing._device import set_npu_device as set_npu_device

_LEAVE = (-1, 2)  # the formats that a fresh tensor has anyway, or that ask for nothing
_BROADCASTS = (
    ((3, 4), (4,)),
    ((2, 1, 5), (3, 1)),
    ((4, 3), ()),
    ((1,), (2, 3)),
    ((5, 1, 4, 1), (3, 1, 6)),
    ((0, 3), (1, 3)),
)
_BY_NAME = (("Ascend910_", 12), ("Ascend950", 9))  # families that are told apart by more, or fewer, characters
_NAME_LENGTH = 10


def _torch_dtype(dtype: Any) -> torch.dtype:
    return dtype if isinstance(dtype, torch.dtype) else torch.from_numpy(np.empty(0, dtype=dtype)).dtype


def _random_whole(dtype: torch.dtype, low: float, high: float, shape: Any) -> torch.Tensor:
    """Whole numbers from low on, below high (as indices need it), within what the dtype holds."""
    limits = torch.iinfo(dtype)
    first = min(max(int(np.floor(low)), limits.min), limits.max)
    end = min(max(int(np.ceil(high)), first + 1), limits.max + 1)
    values = np.random.randint(first, end, shape, dtype=np.uint64 if dtype is torch.uint64 else np.int64)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def _random_tensor(dtype: torch.dtype, low: float, high: float, shape: Any) -> torch.Tensor:
    """Uniform values of numpy's generator, which a test may seed by itself."""
    if dtype is torch.bool:
        middle = (low + high) / 2
        return torch.from_numpy(np.asarray(np.random.uniform(low, high, shape) >= middle))
    if dtype.is_complex:
        real, imaginary = (np.random.uniform(low, high, shape) for _ in range(2))
        return torch.from_numpy(np.asarray(real + 1j * imaginary)).to(dtype)
    if dtype.is_floating_point:
        return torch.from_numpy(np.asarray(np.random.uniform(low, high, shape))).to(dtype)
    return _random_whole(dtype, low, high, shape)


def _on_npu(tensor: torch.Tensor, npu_format: int, device: Any) -> torch.Tensor:
    moved = tensor.to(get_npu_device() if device is None else device)
    return moved if npu_format in _LEAVE else torch.ops.npu.npu_format_cast(moved, npu_format)


def create_common_tensor(
    item: Sequence[Any], minValue: float, maxValue: float, device: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same random values as a tensor on the CPU and one on npu; item is [dtype, npu_format, shape], format -1 leaves it."""
    if len(item) != 3:
        raise ValueError(f"item must be [dtype, npu_format, shape], got {item!r}")
    dtype, npu_format, shape = item
    on_cpu = _random_tensor(_torch_dtype(dtype), minValue, maxValue, shape)
    return on_cpu, _on_npu(on_cpu, npu_format, device)


def create_dtype_tensor(
    shape: Any,
    dtype: Any,
    npu_format: int = -1,
    min_value: float = -5,
    max_value: float = 5,
    no_zero: bool = False,
    device: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As create_common_tensor; `no_zero` puts ones where there are zeros, for divisors."""
    on_cpu = _random_tensor(_torch_dtype(dtype), min_value, max_value, shape)
    if no_zero:
        on_cpu = torch.where(on_cpu == 0, torch.ones_like(on_cpu), on_cpu)
    return on_cpu, _on_npu(on_cpu, npu_format, device)


def check_operators_in_prof(
    expected_operators: Sequence[str], prof: Any, unexpected_operators: Sequence[str] | None = None
) -> bool:
    """Whether a profile of torch.autograd.profiler holds every expected name and none of the unexpected ones."""
    names = {event.name for event in prof.function_events}
    return names.issuperset(expected_operators) and names.isdisjoint(unexpected_operators or ())


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Random numbers drawn inside do not change those drawn after, on the CPU and on all npu devices."""
    on_cpu, on_npu = torch.get_rng_state(), npu.get_rng_state_all()
    try:
        yield
    finally:
        npu.set_rng_state_all(on_npu)
        torch.set_rng_state(on_cpu)


def iter_indices(tensor: torch.Tensor) -> Iterable[Any]:
    """The indices of all elements: numbers for a vector, tuples from two dimensions on, none for a scalar."""
    if tensor.dim() == 0:
        return range(0)
    return range(tensor.size(0)) if tensor.dim() == 1 else product(*(range(size) for size in tensor.size()))


def test_2args_broadcast(
    fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a function of two tensors gives on the CPU and on npu, for shapes that broadcast; the caller compares the pairs."""
    pairs = []
    for shapes in _BROADCASTS:
        left, right = (torch.randn(shape) for shape in shapes)
        device = get_npu_device()
        pairs.append((fn(left, right), fn(left.to(device), right.to(device)).cpu()))
    return pairs


test_2args_broadcast.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


def _chip() -> str:
    """The part of the chip's name that stands for its family."""
    name = npu.get_device_name(0)
    return name[: next((length for prefix, length in _BY_NAME if name.startswith(prefix)), _NAME_LENGTH)]


class _SkipUnless:
    """A decorator of tests and of whole classes; the device is asked when they run, not when the file is imported."""

    def reason(self) -> str | None:
        """Why not to run, None to run."""
        raise NotImplementedError("a skip needs reason()")

    def check(self) -> None:
        reason = self.reason()
        if reason is not None:
            raise unittest.SkipTest(reason)

    def __call__(self, target: Any) -> Any:
        if not isinstance(target, type):
            return self._around(target)
        target.setUpClass = classmethod(self._around(target.setUpClass.__func__))  # type: ignore[attr-defined]
        return target

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.check()
            return function(*args, **kwargs)

        return checked


class SupportedDevices(_SkipUnless):
    """Skip on chips whose family is not in the list, such as ["Ascend910B", "Ascend910_93"]."""

    def __init__(self, supported_devices: Sequence[str]) -> None:
        if isinstance(supported_devices, str):
            raise TypeError(f"SupportedDevices takes a list of names, such as [{supported_devices!r}]")
        self.supported = tuple(supported_devices)

    def reason(self) -> str | None:
        chip = _chip()
        return None if chip in self.supported else f"{chip} is not one of {', '.join(self.supported)}"


class SkipIfNotGteCANNVersion(_SkipUnless):
    """Skip when a part of CANN is older than the version."""

    def __init__(self, version: str, module: str = "CANN") -> None:
        self.version, self.module = version, module

    def reason(self) -> str | None:
        if npu_utils._is_gte_cann_version(self.version, self.module):
            return None
        return f"{self.module} is {npu_utils.get_cann_version(self.module)}, the test needs {self.version}"


class _NeedsLapack(_SkipUnless):
    def reason(self) -> str | None:
        return None if torch._C.has_lapack else "torch was built without LAPACK"


SkipIfNoLapack = _NeedsLapack()


def _create_scaling_case(device: Any = "npu", dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Any, ...]:
    """torch's case for gradient scalers, on npu: two equal modules, their optimizers, data, loss function, the step to skip."""
    from torch.testing._internal.common_cuda import _create_scaling_case as create

    case: tuple[Any, ...] = create(device=device, dtype=dtype, **options)
    return case


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("TestCase", "run_tests"):
        from torch_npu.testing import testcase  # only where a file asks for it: it seeds and reads options

        return getattr(testcase, name)
    from torch.testing._internal import common_utils

    try:
        return getattr(common_utils, name)
    except AttributeError:
        raise AttributeError(f"neither {__name__!r} nor torch's common_utils has {name!r}") from None
