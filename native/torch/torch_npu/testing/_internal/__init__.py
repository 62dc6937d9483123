"""Variants of torch.testing._internal's modules for npu. Both need collectives on npu, that is the hccl backend."""

from __future__ import annotations


def require_hccl(module: str) -> None:
    """Say what is missing before torch's test code stumbles over it."""
    from torch_npu.testing.common_distributed import missing_backends

    if missing_backends("hccl"):
        raise ImportError(f"{module} needs the hccl process group backend, which this torch_npu does not have")
