"""Profiles of the devices as folders PROF_*: `torch.npu.profile`, and its steps one by one (`prof_init` to `prof_finalize`).

There is no raw data that a tool would have to export: the timeline is there at once, in the folder's `timeline`.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from softnpu.base.config import work_path
from torch_npu._errors import ErrCode, prof_error
from torch_npu.npu.device import synchronize

if TYPE_CHECKING:
    from torch_npu.profiler._recorder import Recorder

__all__ = [
    "iteration_end",
    "iteration_start",
    "prof_finalize",
    "prof_init",
    "prof_start",
    "prof_stop",
    "profile",
    "profileConfig",
]

_BITS = {
    "ACL_PROF_ACL_API": 0x1, "ACL_PROF_TASK_TIME": 0x2, "ACL_PROF_AICORE_METRICS": 0x4, "ACL_PROF_AICPU": 0x8,
    "ACL_PROF_L2CACHE": 0x10, "ACL_PROF_HCCL_TRACE": 0x20, "ACL_PROF_TRAINING_TRACE": 0x40,
}  # fmt: skip
_RUNTIME = 0x100  # always collected
_METRICS = (0, 1, 2, 3, 4, 0xFF)


class profileConfig:
    """Which layers are collected. Nothing here counts cycles of AI cores: metrics are checked and stay empty."""

    def __init__(
        self,
        ACL_PROF_ACL_API: bool = True,
        ACL_PROF_TASK_TIME: bool = True,
        ACL_PROF_AICORE_METRICS: bool = True,
        ACL_PROF_AICPU: bool = True,
        ACL_PROF_L2CACHE: bool = False,
        ACL_PROF_HCCL_TRACE: bool = True,
        ACL_PROF_TRAINING_TRACE: bool = False,
        TORCH_CALL_STACK: bool = False,
        aiCoreMetricsType: int = 0,
    ) -> None:
        arguments = locals()
        self.NpuEventConfig = _RUNTIME
        for name, bit in _BITS.items():
            if not isinstance(arguments[name], bool):
                raise TypeError(f"{name} should be a bool but got {arguments[name]!r}" + prof_error(ErrCode.TYPE))
            self.NpuEventConfig |= bit if arguments[name] else 0
        if aiCoreMetricsType not in _METRICS:
            raise ValueError(
                f"aiCoreMetricsType should be in {list(_METRICS)} but got {aiCoreMetricsType}"
                + prof_error(ErrCode.VALUE)
            )
        if ACL_PROF_L2CACHE:
            warnings.warn("ACL_PROF_L2CACHE: there are no data of an L2 cache here, the profile has none", stacklevel=2)
        self.AiCoreMetricsConfig, self.TORCH_CALL_STACK = (aiCoreMetricsType, TORCH_CALL_STACK)

    def wants(self, name: str) -> bool:
        """Whether a layer is collected, by its name."""
        return bool(self.NpuEventConfig & _BITS[name])


class _State:
    """What runs: the folder is there between init and finalize, the recorder between start and stop."""

    path: Path | None = None
    recorder: Recorder | None = None
    config = profileConfig()
    with_host = False
    iteration = 0
    range: Any = None


def _refuse(text: str) -> None:
    raise RuntimeError(text + prof_error(ErrCode.INTERNAL))


def prof_init(path: str) -> None:
    """Name the folder for profiles; it is made when it is missing."""
    if _State.path is not None:
        _refuse("npu profiler traces are not reentrant: prof_finalize() ends the first")
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written: choose another path" + prof_error(ErrCode.PERMISSION))
    _State.path, _State.iteration = folder, 0


def prof_start(config: profileConfig | None = None, *, with_host: bool = False) -> None:
    """Collect from now on; `with_host` adds the operators of PyTorch (E2E)."""
    if _State.path is None or _State.recorder is not None:
        _refuse("prof_start needs a prof_init(path) before it, and no other prof_start")
    from torch_npu.profiler._recorder import Recorder  # programs without a profile do not pay for it

    _State.config, _State.with_host = config or profileConfig(), with_host
    recorder = Recorder(with_stack=_State.config.TORCH_CALL_STACK)
    recorder.start()
    _State.recorder = recorder


def prof_stop() -> None:
    """Collect no more, and write a folder PROF_*."""
    recorder, _State.recorder = _State.recorder, None
    if recorder is None or _State.path is None:
        _refuse("prof_stop needs a prof_start before it")
        return
    from torch_npu.profiler import _cann, _folder

    with suppress(RuntimeError):
        iteration_end()
    synchronize()
    _cann.write(_folder.new_cann_folder(_State.path), recorder.stop(), _State.config.wants, _State.with_host)


def prof_finalize() -> None:
    """Give the folder up; what was not stopped is lost."""
    if _State.recorder is not None:
        _State.recorder.stop()
    _State.path, _State.recorder = None, None


def iteration_start() -> None:
    """An iteration of a training begins; ACL_PROF_TRAINING_TRACE writes them."""
    if _State.range is not None:
        _refuse("iteration_start: the last iteration has no iteration_end()")
    if _State.recorder is None:
        _refuse("iteration_start needs a prof_start before it")
    _State.range = torch.profiler.record_function(f"ProfilerStep#{_State.iteration}")
    _State.range.__enter__()


def iteration_end() -> None:
    """It ends."""
    if _State.range is None:
        _refuse("iteration_end needs an iteration_start() before it")
    _State.range.__exit__(None, None, None)
    _State.range, _State.iteration = None, _State.iteration + 1


class profile:
    """Collects while it is entered; `use_e2e_profiler` puts the operators of PyTorch above those of the devices."""

    def __init__(
        self,
        profiler_result_path: str | None = None,
        use_e2e_profiler: bool = False,
        config: profileConfig | None = None,
    ) -> None:
        root = work_path()
        self.result_path = profiler_result_path or (str(root / "profiling_data") if root is not None else "./")
        self.use_e2e_profiler, self.config = use_e2e_profiler, config or profileConfig()
        self.entered = False

    def __enter__(self) -> profile:
        if self.entered:
            _refuse("npu profiler traces are not reentrant")
        prof_init(self.result_path)
        try:
            prof_start(self.config, with_host=self.use_e2e_profiler)
        except BaseException:
            prof_finalize()
            raise
        self.entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered = False
        try:
            prof_stop()
        finally:
            prof_finalize()
