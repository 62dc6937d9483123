"""apex.multi_tensor_apply: programs ask here whether the CUDA kernels over lists of tensors are there. They are not."""

from __future__ import annotations

from typing import Any, NoReturn


class MultiTensorApply:
    """Says that it is not available, which programs are prepared for."""

    available = False
    warned = False

    def __init__(self, chunk_size: int = 2048 * 32) -> None:
        self.chunk_size = chunk_size

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "multi_tensor_applier needs CUDA kernels; on npu use torch._foreach_* or apex.optimizers.NpuFused*"
        )


multi_tensor_applier = MultiTensorApply()
