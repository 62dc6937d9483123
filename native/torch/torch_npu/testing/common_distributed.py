"""Tests that need several devices. torch's own test code for processes is imported only by what uses it."""

from __future__ import annotations

import functools
import sys
import unittest
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torch_npu import npu

_TORCH_MODULE = "torch.testing._internal.common_distributed"
_FIRST_CODE = 100  # torch's own codes are below
_MOST = 100  # exit codes end at 255, signals have those from 129 on in shells


class TestSkip(NamedTuple):
    """How a process of a test says that the test is skipped: it leaves with this code, and the parent shows the message."""

    exit_code: int
    message: str


TestSkip.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


def _row(devices: int) -> TestSkip:
    return TestSkip(_FIRST_CODE + devices, f"Need at least {devices} NPU device{'s' if devices > 1 else ''}")


TEST_SKIPS = {
    "backend": TestSkip(_FIRST_CODE, "with_comms needs a process group backend that is not there; hccl is"),
    **{f"multi-npu-{devices}": _row(devices) for devices in range(1, 17)},
}


def _tell_torch() -> None:
    """The parent process looks codes up in torch's table."""
    torch_module = sys.modules.get(_TORCH_MODULE)
    if torch_module is not None:
        for name, skip in TEST_SKIPS.items():
            torch_module.TEST_SKIPS.setdefault(name, skip)


def _skip(test: Any, skip: TestSkip) -> None:
    """In a child of a multi-process test by exit code, in torch's threaded and long-lived tests by their hook, else by SkipTest."""
    if hasattr(test, "_handle_test_skip"):
        test._handle_test_skip(skip.message)
        return
    torch_module = sys.modules.get(_TORCH_MODULE)
    multi_process = torch_module is not None and isinstance(test, torch_module.MultiProcessTestCase)
    if multi_process and test.rank != test.MAIN_PROCESS_RANK:
        sys.exit(skip.exit_code)
    raise unittest.SkipTest(skip.message)


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Skip where there are fewer devices; the devices are counted when the test runs."""
    if not 1 <= npu_number_needed <= _MOST:
        raise ValueError(f"a test can need 1 to {_MOST} devices, not {npu_number_needed}")
    skip = TEST_SKIPS.setdefault(f"multi-npu-{npu_number_needed}", _row(npu_number_needed))
    _tell_torch()

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def test(self: Any, *args: Any, **kwargs: Any) -> Any:
            if npu.device_count() >= npu_number_needed:
                return method(self, *args, **kwargs)
            return _skip(self, skip)

        return test

    return decorate


def missing_backends(backend: str) -> list[str]:
    """The process group backends that a name such as hccl or cpu:gloo,npu:hccl asks for and that are not there."""
    asked = [part.rpartition(":")[2] for part in backend.split(",")]
    return [name for name in asked if not torch.distributed.is_backend_available(name)]


def with_comms(eager_init: Any = False, backend: str | None = None) -> Any:
    """A process group around a DTensor test, as torch's decorator of this name; hccl unless asked otherwise.

    Where the backend is missing the test is skipped with a message that says so.
    """
    if callable(eager_init):
        method_of_test: Callable[..., Any] = eager_init
        return with_comms()(method_of_test)
    _tell_torch()

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def test(self: Any, *args: Any, **kwargs: Any) -> Any:
            if missing_backends(backend or "hccl"):
                return _skip(self, TEST_SKIPS["backend"])
            from torch.testing._internal.distributed._tensor.common_dtensor import with_comms as around

            start: Any = around(eager_init, backend)  # torch gives the decorated test where there is no method yet
            return start(method)(self, *args, **kwargs)

        return test

    return decorate
