"""Recording what runs from one moment to another, with torch's profiler."""

from __future__ import annotations

import time
from typing import Any

from torch_npu.profiler._autograd import profile
from torch_npu.profiler._record import Recording, read


class Recorder:
    """torch's profiler, always with shapes: the tensors' devices tell which operators are work of npu."""

    def __init__(self, **options: Any) -> None:
        self.torch = profile(use_kineto=True, record_shapes=True, **options)

    def start(self) -> None:
        """Look from now on."""
        self.torch._prepare_trace()
        self._start = time.time_ns()
        self.torch._start_trace()

    def stop(self) -> Recording:
        """Look no more."""
        self.torch.__exit__(None, None, None)
        return read(self.torch.kineto_results, self._start, time.time_ns())
