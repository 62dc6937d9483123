"""Which functions compute in half precision under O1, which in float32, and which in the widest type of their arguments."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_VF: Any = torch._VF

_CONVOLUTIONS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc"
_PRODUCTS = "addmm addmv addr matmul mm mv bmm addbmm baddbmm"
_RECURRENT = "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
_POINTS = "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow"
_REDUCTIONS = "softmax log_softmax cumprod cumsum dist mean norm prod std sum var renorm logsumexp"
_NORMS = "layer_norm group_norm batch_norm instance_norm local_response_norm normalize rms_norm"
_LOSSES = (
    "poisson_nll_loss gaussian_nll_loss cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss huber_loss kl_div l1_loss "
    "mse_loss margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss nll_loss "
    "binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss triplet_margin_loss"
)
_FAST_PATHS = (
    "_transformer_encoder_layer_fwd _native_multi_head_attention"  # layers as one call, with their float32 weights
)

HALF = [
    (torch, f"{_CONVOLUTIONS} {_PRODUCTS} prelu einsum chain_matmul"),
    (torch.linalg, "multi_dot"),
    (F, f"{_CONVOLUTIONS} linear prelu scaled_dot_product_attention"),
    (Tensor, f"{_PRODUCTS} prelu __matmul__ __rmatmul__"),
    (_VF, _RECURRENT),
]
FLOAT = [
    (torch, f"{_POINTS} {_REDUCTIONS} cdist pdist cosine_similarity {_FAST_PATHS}"),
    (torch.linalg, "norm vector_norm matrix_norm"),
    (F, f"softplus softmin log_softmax softmax gelu cosine_similarity pdist {_NORMS} {_LOSSES}"),
    (Tensor, f"{_POINTS} {_REDUCTIONS} __pow__ __rpow__"),
]
# Functions whose arguments torch itself brings to one type (add, mul, cat, where …) need nothing.
PROMOTE = [
    (torch, "bilinear cross dot vdot tensordot index_put scatter_add index_add"),
    (torch.linalg, "cross vecdot"),
    (F, "bilinear grid_sample"),
    (Tensor, "cross dot vdot index_put scatter_add index_add"),
]
AS_SELF = [(Tensor, "index_put_ index_add_ scatter_ scatter_add_ addmm_ addmv_ addr_ addbmm_ baddbmm_")]
BANNED = [
    (F, "binary_cross_entropy", "torch.nn.functional.binary_cross_entropy", "binary_cross_entropy_with_logits"),
]


def rows() -> list[tuple[Any, str, str]]:
    """(module, name, kind) of every function there is in this torch."""
    kinds = {"half": HALF, "float": FLOAT, "promote": PROMOTE, "as self": AS_SELF}
    return [
        (module, name, kind)
        for kind, listed in kinds.items()
        for module, names in listed
        for name in names.split()
        if hasattr(module, name)
    ]
