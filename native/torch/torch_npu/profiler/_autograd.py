"""`torch.autograd.profiler.profile(use_npu=True)`: torch's profiler of operators, in the spelling of torch 1.5 and 1.8.1."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import ProfilerState

from torch_npu import _C
from torch_npu._errors import ErrCode, prof_error

_original: Any = torch.autograd.profiler.profile


class profile(_original):  # type: ignore[misc]
    """torch's profiler of operators, which also knows `use_npu`: times on npu beside those on the host."""

    def __init__(
        self, enabled: bool = True, *, use_npu: bool = False, use_npu_simple: bool = False, **options: Any
    ) -> None:
        """`use_npu_simple` keeps the innermost operators only in a trace."""
        if use_npu and options.get("use_cuda"):
            raise RuntimeError("use_cuda and use_npu exclude each other: set one of them" + prof_error(ErrCode.PARAM))
        if use_npu_simple and not use_npu:
            raise RuntimeError("use_npu_simple needs use_npu=True" + prof_error(ErrCode.PARAM))
        if use_npu:
            options["use_device"] = "npu"
        self._simple = use_npu_simple
        if use_npu_simple:
            options["record_shapes"] = True  # the devices of the tensors say which operator is the innermost
        super().__init__(enabled, **options)

    def _start_trace(self) -> None:
        if self.profile_memory:
            _C._report_memory(True)
        self._began = time.time_ns()
        super()._start_trace()

    def __exit__(self, *error: Any) -> Any:
        self._ended = time.time_ns()
        try:
            return super().__exit__(*error)
        finally:
            if self.enabled and self.profile_memory:
                _C._report_memory(False)

    def _ensure_function_events(self) -> None:
        """Calls of less than a microsecond would get rows of their own in averages: torch takes them for another kind of event."""
        super()._ensure_function_events()
        if self.profiler_kind == ProfilerState.KINETO_PRIVATEUSE1_FALLBACK:
            for event in self._function_events:
                event.is_legacy = True

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """The trace as a file."""
        if not self._simple:
            return super().export_chrome_trace(path, *args, **kwargs)
        from torch_npu.profiler import _record, _timeline  # programs without a profile do not pay for them

        return _timeline.simple(_record.read(self.kineto_results, self._began, self._ended)).write(Path(path))
