"""Matrix products and linear layers; convolutions are in `convolutions`."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradients, require, unsupported, wide


def npu_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(input, weight, bias)


def npu_linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    rows = grad.reshape(-1, grad.shape[-1])
    return grad @ weight, rows.t() @ input.reshape(-1, input.shape[-1])


def npu_bmmV2(self: Tensor, mat2: Tensor, output_sizes: list[int]) -> Tensor:
    """An empty list leaves the shape as the product has it."""
    product = torch.matmul(self, mat2)
    return product.reshape(output_sizes) if len(output_sizes) else product


def _product_shape(mat1: Tensor, mat2: Tensor) -> list[int]:
    return [*torch.broadcast_shapes(mat1.shape[:-2], mat2.shape[:-2]), mat1.shape[-2], mat2.shape[-1]]


def npu_bmm_v2_mat1_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: list[int]) -> Tensor:
    """`size` is the shape of the factor; what was broadcast is summed."""
    shaped = grad.reshape(_product_shape(mat1, mat2))
    return (shaped @ mat2.transpose(-2, -1)).sum_to_size(mat1.shape).reshape(size)


def npu_bmm_v2_mat2_backward(grad: Tensor, mat1: Tensor, mat2: Tensor, size: list[int]) -> Tensor:
    shaped = grad.reshape(_product_shape(mat1, mat2))
    return (mat1.transpose(-2, -1) @ shaped).sum_to_size(mat2.shape).reshape(size)


def npu_batch_gather_matmul_(
    self: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None = None,
    layer_idx: int = 0,
    scale: float = 1e-3,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Tensor:
    """Weights are [adapters, layers, outputs, inputs]; a row whose index is negative has no adapter and stays as it is."""
    size = self.shape[1] - y_offset if y_slice_size == -1 else y_slice_size
    require(
        0 <= y_offset <= y_offset + size <= self.shape[1],
        f"npu_batch_gather_matmul: columns {y_offset} to {y_offset + size} of {self.shape[1]}",
        ErrCode.VALUE,
    )
    chosen = indices.long().clamp(min=0)

    def through(rows: Tensor, weight: Tensor) -> Tensor:
        return torch.bmm(wide(weight[chosen, layer_idx]), rows.unsqueeze(-1)).squeeze(-1)

    low = wide(x) if weight_a is None else through(wide(x), weight_a)
    added = scale * through(low, weight_b) * (indices >= 0).unsqueeze(1)
    self.narrow(1, y_offset, size).add_(added.to(self.dtype))
    return self


def npu_batch_gather_matmul(
    self: Tensor,
    x: Tensor,
    weight_b: Tensor,
    indices: Tensor,
    weight_a: Tensor | None = None,
    layer_idx: int = 0,
    scale: float = 1e-3,
    y_offset: int = 0,
    y_slice_size: int = -1,
) -> Tensor:
    options = (weight_a, layer_idx, scale, y_offset, y_slice_size)
    return npu_batch_gather_matmul_(self.clone(), x, weight_b, indices, *options)


_ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda y: y,
    "relu": F.relu,
    "gelu_erf": F.gelu,
    "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
}
_WITH_X3: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"add": torch.add, "mul": torch.mul}


def npu_fused_matmul(
    x1: Tensor, x2: Tensor, *, bias: Tensor | None = None, x3: Tensor | None = None, fused_op_type: str = ""
) -> Tensor:
    known = sorted((*_ALONE, *_WITH_X3))
    require(fused_op_type in known, f"npu_fused_matmul: fused_op_type must be one of {known}, not {fused_op_type!r}")
    product = torch.matmul(x1, x2)
    if bias is not None:
        product = product + bias
    if fused_op_type in _WITH_X3:
        require(x3 is not None, f"npu_fused_matmul: fused_op_type {fused_op_type!r} needs x3")
        assert x3 is not None
        return _WITH_X3[fused_op_type](product, x3)
    require(x3 is None, f"npu_fused_matmul: x3 has no meaning for fused_op_type {fused_op_type!r}")
    return _ALONE[fused_op_type](product)


def npu_masked_causal_conv1d(input: Tensor, weight: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Input [S, B, H], weight [3, H], the last row for the present step; mask [B, S], what it excludes is zero in the result."""
    require(input.dim() == 3, f"npu_masked_causal_conv1d: the input must be [S, B, H], not {tuple(input.shape)}")
    require(
        weight.shape == (3, input.shape[2]),
        f"npu_masked_causal_conv1d: the weight must be [3, {input.shape[2]}], not {tuple(weight.shape)}",
    )
    steps = F.pad(input, (0, 0, 0, 0, 2, 0)).unfold(0, 3, 1)  # [S, B, H, 3]
    result = (wide(steps) * wide(weight).t()).sum(-1).to(input.dtype)
    if mask is None:
        return result
    require(
        mask.shape == (input.shape[1], input.shape[0]),
        f"npu_masked_causal_conv1d: the mask must be [{input.shape[1]}, {input.shape[0]}], not {tuple(mask.shape)}",
    )
    return result * mask.t().unsqueeze(-1).to(result.dtype)


def npu_masked_causal_conv1d_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, *, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return gradients(lambda x, w: npu_masked_causal_conv1d(x, w, mask=mask), grad_output, input, weight)


def npu_transpose_batchmatmul(
    input: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    perm_x1: list[int] | None = None,
    perm_x2: list[int] | None = None,
    perm_y: list[int] | None = None,
    batch_split_factor: int | None = 1,
) -> Tensor:
    """The product [B, M, N] comes out as [M, B, N] unless perm_y says otherwise; a split factor f makes [f, M, B * N / f] of it."""
    require(
        input.dim() == weight.dim() == 3,
        f"npu_transpose_batchmatmul: both factors must have 3 dimensions, not {input.dim()} and {weight.dim()}",
    )
    if scale is not None:
        raise unsupported(
            "npu_transpose_batchmatmul: scale, a quantised result; use the product and a quantising operator"
        )
    first = input if perm_x1 is None else input.permute(perm_x1)
    second = weight if perm_x2 is None else weight.permute(perm_x2)
    product = torch.bmm(first, second)
    if bias is not None:
        product = product + bias
    turned = product.permute([1, 0, 2] if perm_y is None else perm_y).contiguous()
    factor = batch_split_factor or 1
    if factor == 1:
        return turned
    require(
        product.shape[0] % factor == 0,
        f"npu_transpose_batchmatmul: {product.shape[0]} batches in {factor} parts",
        ErrCode.VALUE,
    )
    return turned.reshape(turned.shape[0], factor, -1).transpose(0, 1).contiguous()
