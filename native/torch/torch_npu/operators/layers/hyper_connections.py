"""Hyper-connections with doubly stochastic mixing: n parallel residual streams that a layer reads from and writes to.

Streams are [..., n, width]. Silent spots, read as the models do: phi is [n * n + 2 n, n * width] with the rows of pre, post and res in
this order, alpha one factor for each of them, pre = sigmoid + hc_eps, post = 2 sigmoid, res as it is (npu_mhc_sinkhorn comes after).
Statistics are float32 (float64 for such streams); results that out_flag 0 does not ask for are empty.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported, wide


def _check_flag(name: str, out_flag: int) -> None:
    require(out_flag in (0, 1), f"{name}: out_flag must be 0 or 1, not {out_flag}", ErrCode.VALUE)


def npu_mhc_sinkhorn(
    x: Tensor, *, eps: float = 1e-6, num_iters: int = 20, out_flag: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax of the rows plus eps, columns divided by their sum plus eps, then rows and columns in turn, num_iters of each in all.
    out_flag 1 also gives the matrix after each of the 2 * num_iters steps, and what the step divided by (1 for the softmax)."""
    name = "npu_mhc_sinkhorn"
    _check_flag(name, out_flag)
    require(num_iters > 0, f"{name}: num_iters must be positive, not {num_iters}", ErrCode.VALUE)
    require(x.dim() >= 2 and x.shape[-1] == x.shape[-2], f"{name}: x must end in a square, not be {tuple(x.shape)}")
    matrix = wide(x).softmax(-1) + eps
    norms, sums = [matrix], [torch.ones_like(matrix[..., 0])]
    for step in range(1, 2 * num_iters):
        dim = -2 if step % 2 else -1
        total = matrix.sum(dim, keepdim=True) + eps
        matrix = matrix / total
        norms.append(matrix)
        sums.append(total.squeeze(dim))
    if not out_flag:
        return matrix.to(x.dtype), matrix.new_empty(0), matrix.new_empty(0)
    return matrix.to(x.dtype), torch.stack(norms), torch.stack(sums)


def npu_mhc_sinkhorn_backward(grad_y: Tensor, norm: Tensor, sum: Tensor) -> Tensor:
    """From the matrices and sums that out_flag 1 gave: y = x / s has the gradient (g - sum(g y)) / s."""
    name = "npu_mhc_sinkhorn_backward"
    require(
        norm.dim() == grad_y.dim() + 1 and norm.shape[1:] == grad_y.shape and sum.shape == norm.shape[:-1],
        f"{name}: norm {tuple(norm.shape)} and sum {tuple(sum.shape)} are not those of a call with out_flag 1 for {tuple(grad_y.shape)}",
    )
    grad = wide(grad_y)
    for step in reversed(range(1, norm.shape[0])):
        dim = -2 if step % 2 else -1
        grad = (grad - (grad * norm[step]).sum(dim, keepdim=True)) / sum[step].unsqueeze(dim)
    eps = (norm[0].sum(-1, keepdim=True) - 1) / norm.shape[-1]  # rows of a softmax have the sum 1
    shares = norm[0] - eps
    return (shares * (grad - (grad * shares).sum(-1, keepdim=True))).to(grad_y.dtype)


def _check_pre(name: str, x: Tensor, phi: Tensor, alpha: Tensor, gamma: Tensor | None) -> tuple[int, int]:
    require(x.dim() >= 3, f"{name}: x must be [..., streams, width], not {tuple(x.shape)}")
    streams, width = x.shape[-2:]
    outputs = streams * streams + 2 * streams
    require(
        tuple(phi.shape) == (outputs, streams * width),
        f"{name}: phi must be ({outputs}, {streams * width}) for {streams} streams of {width}, not {tuple(phi.shape)}",
    )
    require(alpha.numel() == 3, f"{name}: alpha must have 3 factors (pre, post, res), not {alpha.numel()}")
    require(
        gamma is None or gamma.numel() == streams * width,
        f"{name}: gamma must have a factor for each of {streams} streams of {width}",
    )
    return streams, outputs


def _factors(alpha: Tensor, streams: int) -> Tensor:
    """alpha for each of the n + n + n * n outputs."""
    sizes = torch.tensor([streams, streams, streams * streams], device=alpha.device)
    return wide(alpha).reshape(-1).repeat_interleave(sizes, output_size=streams * (streams + 2))


def _flat(x: Tensor, gamma: Tensor | None) -> Tensor:
    flat = wide(x).flatten(-2)
    return flat if gamma is None else flat * wide(gamma).reshape(-1)


def npu_mhc_pre(
    x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, *, gamma: Tensor | None = None, norm_eps: float = 1e-6,
    hc_eps: float = 1e-6, out_flag: int = 0, inner_precise: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """h_in, the streams weighted by pre; h_post; h_res [..., n, n]; with out_flag 1 also 1 / rms, the outputs of phi divided by the
    rms, and h_pre."""
    name = "npu_mhc_pre"
    _check_flag(name, out_flag)
    if inner_precise:
        raise unsupported(f"{name}: inner_precise {inner_precise}; 0 is there")
    streams, outputs = _check_pre(name, x, phi, alpha, gamma)
    require(bias.numel() == outputs, f"{name}: bias must have {outputs} entries, not {bias.numel()}")
    inv_rms = torch.rsqrt(wide(x).flatten(-2).square().mean(-1, keepdim=True) + norm_eps)
    mix = (_flat(x, gamma) @ wide(phi).t()) * inv_rms
    raw = mix * _factors(alpha, streams) + wide(bias).reshape(-1)
    pre, post, res = raw.split_with_sizes([streams, streams, streams * streams], -1)
    h_pre, h_post = pre.sigmoid() + hc_eps, 2 * post.sigmoid()
    h_in = (h_pre.unsqueeze(-1) * wide(x)).sum(-2).to(x.dtype)
    kept = (inv_rms, mix, h_pre) if out_flag else (mix.new_empty(0),) * 3
    return h_in, h_post, torch.unflatten(res, -1, (streams, streams)), *kept


def npu_mhc_pre_backward(
    x: Tensor, phi: Tensor, alpha: Tensor, grad_h_in: Tensor, grad_h_post: Tensor, grad_h_res: Tensor, inv_rms: Tensor,
    h_mix: Tensor, h_pre: Tensor, h_post: Tensor, gamma: Tensor | None = None, hc_eps: float = 1e-6,
    grad_x_post: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x (plus grad_x_post, what another way brought to it), phi, alpha, bias and gamma (empty without one)."""
    streams, _ = _check_pre("npu_mhc_pre_backward", x, phi, alpha, gamma)
    streamed, into = wide(x), wide(grad_h_in).unsqueeze(-2)
    gate = h_pre - hc_eps
    raw = torch.cat(
        (
            (into * streamed).sum(-1) * gate * (1 - gate),
            wide(grad_h_post) * h_post * (1 - h_post / 2),
            wide(grad_h_res).flatten(-2),
        ),
        -1,
    )
    rows, flat = raw.reshape(-1, raw.shape[-1]), _flat(x, gamma)
    by_kind = (rows * h_mix.reshape(rows.shape)).sum(0).split_with_sizes([streams, streams, streams * streams])
    d_alpha = torch.stack([part.sum() for part in by_kind]).reshape(alpha.shape)
    mixed = raw * _factors(alpha, streams)
    d_sums = mixed * inv_rms
    d_flat = d_sums @ wide(phi)
    d_rms = (mixed * h_mix).sum(-1, keepdim=True) * inv_rms.square() / flat.shape[-1]
    d_x = d_flat if gamma is None else d_flat * wide(gamma).reshape(-1)
    d_x = torch.unflatten(d_x - d_rms * streamed.flatten(-2), -1, x.shape[-2:]) + into * h_pre.unsqueeze(-1)
    d_x = d_x if grad_x_post is None else d_x + wide(grad_x_post)
    d_phi = d_sums.reshape(rows.shape).t() @ flat.reshape(-1, flat.shape[-1])
    d_gamma = d_phi.new_empty(0)
    if gamma is not None:
        d_gamma = (
            (d_flat * streamed.flatten(-2)).reshape(-1, flat.shape[-1]).sum(0).reshape(gamma.shape).to(gamma.dtype)
        )
    return d_x.to(x.dtype), d_phi.to(phi.dtype), d_alpha.to(alpha.dtype), rows.sum(0), d_gamma


def _check_post(name: str, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor) -> Tensor:
    if h_res is None:
        raise unsupported(f"{name}: a call without h_res; give the matrices that mix the streams")
    streams, width = x.shape[-2:]
    lead = x.shape[:-2]
    for what, tensor, wanted in (
        ("h_res", h_res, (*lead, streams, streams)),
        ("h_out", h_out, (*lead, width)),
        ("h_post", h_post, (*lead, streams)),
    ):
        require(tensor.shape == wanted, f"{name}: {what} must be {tuple(wanted)}, not {tuple(tensor.shape)}")
    return h_res


def npu_mhc_post(x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor) -> Tensor:
    """Stream j is the sum over i of h_res[i, j] x[i], plus h_post[j] times the layer's result h_out."""
    mixing = _check_post("npu_mhc_post", x, h_res, h_out, h_post)
    mixed = wide(mixing).transpose(-1, -2) @ wide(x)
    return (mixed + wide(h_post).unsqueeze(-1) * wide(h_out).unsqueeze(-2)).to(x.dtype)


def npu_mhc_post_backward(
    grad_y: Tensor, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, h_res, h_out and h_post."""
    mixing = _check_post("npu_mhc_post_backward", x, h_res, h_out, h_post)
    grad = wide(grad_y)
    return (
        (wide(mixing) @ grad).to(x.dtype),
        (wide(x) @ grad.transpose(-1, -2)).to(mixing.dtype),
        (grad * wide(h_post).unsqueeze(-1)).sum(-2).to(h_out.dtype),
        (grad * wide(h_out).unsqueeze(-2)).sum(-1).to(h_post.dtype),
    )
