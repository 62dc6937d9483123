"""Convolutions: aten's with the argument order of the device, and the deformable one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradients, into, require, wide

Three = tuple[Tensor | None, Tensor | None, Tensor | None]


def convolution_gradients(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int],
    groups: int,
    mask: list[bool],
    transposed: bool = False,
    output_padding: list[int] | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of input, weight and bias; those that the mask leaves out are undefined (None)."""
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    grads: tuple[Tensor | None, Tensor | None, Tensor | None] = torch.ops.aten.convolution_backward(
        grad, input, weight, [channels], stride, padding, dilation, transposed, output_padding or [0] * len(stride),
        groups, mask,
    )  # fmt: skip
    return grads


def npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The rank of the weight says how many dimensions are convolved."""
    return torch.convolution(input, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups)


def npu_convolution__out(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int],
    groups: int,
    *,
    out: Tensor,
) -> Tensor:
    return into(out, npu_convolution(input, weight, bias, stride, padding, dilation, groups))


def npu_convolution_backward(
    input: Tensor,
    grad_output: Tensor,
    weight: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int],
    groups: int,
    output_mask: list[bool],
) -> Three:
    return convolution_gradients(grad_output, input, weight, stride, padding, dilation, groups, output_mask)


def npu_convolution_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Not the order of torch: the paddings come before the stride."""
    return torch.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def npu_convolution_transpose_backward(
    input: Tensor,
    grad: Tensor,
    weight: Tensor,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: Sequence[int],
    groups: int,
    grad_input_mask: list[bool],
) -> Three:
    return convolution_gradients(
        grad, input, weight, stride, padding, dilation, groups, grad_input_mask, True, output_padding
    )


npu_conv2d = npu_conv3d = npu_convolution
npu_conv2d__out = npu_conv3d__out = npu_convolution__out
npu_conv2d_backward = npu_conv3d_backward = npu_convolution_backward
npu_conv_transpose2d = npu_convolution_transpose
npu_conv_transpose2d_backward = npu_conv_transpose3d_backward = npu_convolution_transpose_backward


def _deformed(
    input: Tensor,
    offset: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int],
    groups: int,
    modulated: bool,
) -> Tensor:
    """The samples that the kernel meets, [N, C, H * kh, W * kw]: a convolution with the kernel's size as stride does the rest.

    The channels of offset are all x, then all y, then all factors; within each the group, then the place in the kernel. Strides
    and dilations have an entry for each of N, C, H, W; padding is top, bottom, left, right.
    """
    (tall, broad), (batch, channels, height, width) = kernel_size, input.shape
    rows, columns = offset.shape[2:]
    parts = offset.reshape(batch, -1, groups, tall, broad, rows, columns).permute(1, 0, 2, 5, 3, 6, 4)
    shape = (batch * groups, rows * tall, columns * broad)

    def positions(count: int, taps: int, axis: int, before: int) -> Tensor:
        starts = torch.arange(count, device=input.device).reshape(-1, 1) * stride[axis] - before
        return (starts + torch.arange(taps, device=input.device) * dilation[axis]).reshape(-1)

    x = parts[0].reshape(shape) + positions(columns, broad, 3, padding[2])
    y = parts[1].reshape(shape) + positions(rows, tall, 2, padding[0]).unsqueeze(1)
    grid = torch.stack(((2 * x + 1) / width - 1, (2 * y + 1) / height - 1), -1)
    pictures = input.reshape(batch * groups, channels // groups, height, width)
    sampled = F.grid_sample(pictures, grid, "bilinear", "zeros", align_corners=False)
    if modulated:
        sampled = sampled * parts[2].reshape(shape).unsqueeze(1)
    return sampled.reshape(batch, channels, *shape[1:])


def _check_deformable(
    input: Tensor,
    offset: Tensor,
    kernel_size: list[int],
    lists: Mapping[str, Sequence[int]],
    groups: int,
    modulated: bool,
) -> None:
    name = "npu_deformable_conv2d"
    require(input.dim() == 4, f"{name}: the input must be [N, C, H, W], not {tuple(input.shape)}")
    for what, entries in lists.items():
        require(len(entries) == 4, f"{name}: {what} must have 4 entries, {list(entries)} has {len(entries)}")
    wanted = (3 if modulated else 2) * groups * kernel_size[0] * kernel_size[1]
    require(
        offset.dim() == 4 and offset.shape[1] == wanted,
        f"{name}: offset {tuple(offset.shape)} must have {wanted} channels: {'x, y and factor' if modulated else 'x and y'} for "
        f"each of {groups} deformable groups and {kernel_size[0] * kernel_size[1]} places of the kernel",
    )
    require(
        input.shape[1] % groups == 0, f"{name}: {input.shape[1]} channels in {groups} deformable groups", ErrCode.VALUE
    )


def npu_deformable_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> tuple[Tensor, Tensor]:
    lists = {"stride": stride, "padding": padding, "dilation": dilation}
    _check_deformable(input, offset, kernel_size, lists, deformable_groups, modulated)
    sampled = _deformed(
        wide(input), wide(offset), kernel_size, stride, padding, dilation, deformable_groups, modulated
    ).to(input.dtype)
    return F.conv2d(sampled, weight, bias, tuple(kernel_size), groups=groups), sampled


def npu_deformable_conv2dbk(
    input: Tensor,
    grad_output: Tensor,
    offset_out: Tensor,
    weight: Tensor,
    offset: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight, offset and bias; offset_out is the second output of the forward call."""

    def sample(x: Tensor, moved: Tensor) -> Tensor:
        return _deformed(x, moved, kernel_size, stride, padding, dilation, deformable_groups, modulated)

    nothing = [0, 0]
    to_sampled, to_weight, to_bias = convolution_gradients(
        grad_output, offset_out, weight, list(kernel_size), nothing, [1, 1], groups, [True, True, True]
    )
    assert to_sampled is not None and to_weight is not None and to_bias is not None
    to_input, to_offset = gradients(sample, wide(to_sampled), wide(input), wide(offset))
    return to_input.to(input.dtype), to_weight, to_offset.to(offset.dtype), to_bias
