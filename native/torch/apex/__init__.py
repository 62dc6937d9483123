"""apex for Ascend: mixed precision by `from apex import amp`, and the optimizers of torch_npu under the names of apex.

NVIDIA's parts in CUDA (fused layers, contrib) are absent; what asks for them is told what to use instead.
"""

import torch_npu  # noqa: F401  # the device it is for

from apex import amp, fp16_utils, multi_tensor_apply, normalization, optimizers, parallel

__all__ = ["amp", "fp16_utils", "multi_tensor_apply", "normalization", "optimizers", "parallel"]
