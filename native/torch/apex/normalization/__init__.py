"""apex.normalization: its layers are CUDA kernels, which an NPU does not have."""

from typing import NoReturn

_INSTEAD = {
    "FusedLayerNorm": "torch.nn.LayerNorm",
    "MixedFusedLayerNorm": "torch.nn.LayerNorm",
    "FusedRMSNorm": "torch.nn.RMSNorm",
}


def __getattr__(name: str) -> NoReturn:
    if name in _INSTEAD:
        package, _, layer = _INSTEAD[name].rpartition(".")
        raise ImportError(
            f"apex.normalization.{name} is not supported on npu: write 'from {package} import {layer}' instead"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
