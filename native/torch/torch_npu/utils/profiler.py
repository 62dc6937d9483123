"""`torch_npu.utils.profiler.Profile`: one profile of one step, wherever `start` and `end` stand in a training loop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch_npu._errors import ErrCode, prof_error
from torch_npu._runtime.face import torch_with_npu

__all__ = ["Profile"]


class Profile:
    """The step `start_step` as a trace of PyTorch ("TORCH") or as a folder of the devices ("CANN"); there is one in a program."""

    _the_one: Profile | None = None
    _ready = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Profile:
        del args, kwargs
        if cls._the_one is None:
            cls._the_one = super().__new__(cls)
        return cls._the_one

    def __init__(
        self, start_step: int = 10, save_path: str = "./npu_profiling", profile_type: str | None = None, **options: Any
    ) -> None:
        if self._ready:
            return
        wanted = profile_type or "TORCH"
        if wanted == "GE":
            raise RuntimeError(
                'profile_type "GE" is not supported by softnpu: there is no graph engine to profile, use "CANN" or "TORCH"'
                + prof_error(ErrCode.NOT_SUPPORT)
            )
        if wanted not in ("TORCH", "CANN"):
            raise ValueError(
                f'profile_type should be "TORCH", "CANN" or "GE" but got {profile_type!r}' + prof_error(ErrCode.VALUE)
            )
        self.start_step, self.save_path, self.profile_type, self.options = (start_step, save_path, wanted, options)
        self.step, self._running, self._ready = 0, None, True

    _running: Any

    def start(self) -> None:
        """A step begins."""
        if self.step != self.start_step or self._running is not None:
            return
        os.makedirs(self.save_path, exist_ok=True)
        if self.profile_type == "TORCH":
            self._running = torch_with_npu.autograd.profiler.profile(use_npu=True, **self.options)
        else:
            self._running = torch_with_npu.npu.profile(self.save_path, **self.options)
        self._running.__enter__()

    def end(self) -> None:
        """It ends."""
        running, self._running, self.step = self._running, None, self.step + 1
        if running is None:
            return
        running.__exit__(None, None, None)
        if self.profile_type == "TORCH":
            running.export_chrome_trace(str(Path(self.save_path) / f"chrome_trace_{os.getpid()}.json"))
            print(running.key_averages().table(sort_by="self_npu_time_total"))
