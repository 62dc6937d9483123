"""Operators of torch.ops.npu against the aten composition that a user would write, both on npu, in one run with two threads."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
import torch_npu.operators
from _tools import Result, interleaved
from torch import Tensor

THREADS = 2
DTYPES = (torch.float32, torch.bfloat16)

Pair = tuple[Callable[[], Tensor], Callable[[], Tensor], list[Tensor]]


def _backward(forward: Callable[[], Tensor], leaves: list[Tensor]) -> Callable[[], None]:
    """Forward and backward, with one gradient for all rounds."""
    grad = torch.randn_like(forward())

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        forward().backward(grad)

    return run


def _compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 15) -> Result:
    ours()
    theirs()
    mine, peer = interleaved(ours, theirs, rounds=rounds)
    ratio = peer / mine
    return Result(name, f"{mine * 1e3:.1f} ms", f"aten {peer * 1e3:.1f} ms", f"{ratio:.2f}", "≥ 1.0", ratio >= 1.0)


def _both(name: str, pair: Pair) -> list[Result]:
    ours, theirs, leaves = pair
    with torch.no_grad():
        forward = _compare(f"{name} forward", ours, theirs)
    for leaf in leaves:
        leaf.requires_grad_()
    return [forward, _compare(f"{name} with backward", _backward(ours, leaves), _backward(theirs, leaves))]


def _rms_norm(dtype: torch.dtype) -> Pair:
    x = torch.randn(4, 1024, 2048, device="npu", dtype=dtype)
    gamma = torch.randn(2048, device="npu", dtype=dtype)

    def composed() -> Tensor:
        wide = x.float()
        return gamma * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype)

    return lambda: torch.ops.npu.npu_rms_norm(x, gamma)[0], composed, [x, gamma]


def _rotary_mul(dtype: torch.dtype) -> Pair:
    x = torch.randn(4, 1024, 16, 128, device="npu", dtype=dtype)
    cos, sin = (torch.randn(1, 1024, 1, 128, device="npu", dtype=dtype) for _ in range(2))

    def composed() -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    return lambda: torch.ops.npu.npu_rotary_mul(x, cos, sin), composed, [x]


def _swiglu(dtype: torch.dtype) -> Pair:
    x = torch.randn(4, 1024, 2048, device="npu", dtype=dtype)

    def composed() -> Tensor:
        left, right = x.chunk(2, -1)
        return F.silu(left) * right

    return lambda: torch.ops.npu.npu_swiglu(x), composed, [x]


def _attention(causal: bool) -> Callable[[torch.dtype], Pair]:
    """softmax(q @ k^T * scale + mask) @ v; the operator takes the compressed mask."""
    hidden = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1) if causal else None

    def make(dtype: torch.dtype) -> Pair:
        q, k, v = (torch.randn(2, 16, 1024, 64, device="npu", dtype=dtype) for _ in range(3))
        bias = torch.full((1024, 1024), -torch.inf, device="npu", dtype=dtype).triu(1) if causal else None

        def ours() -> Tensor:
            return torch.ops.npu.npu_fusion_attention(
                q, k, v, 16, "BNSD", scale=0.125, atten_mask=hidden, sparse_mode=2 if causal else 0
            )[0]

        def composed() -> Tensor:
            scores = q @ k.transpose(-1, -2) * 0.125
            return torch.softmax(scores if bias is None else scores + bias, -1) @ v

        return ours, composed, [q, k, v]

    return make


# A row for each operator: a function from a dtype to (ours, the composition, leaves of the derivative).
OPERATORS: dict[str, Callable[[torch.dtype], Pair]] = {
    "npu_rms_norm [4, 1024, 2048]": _rms_norm,
    "npu_rotary_mul [4, 1024, 16, 128]": _rotary_mul,
    "npu_swiglu [4, 1024, 2048]": _swiglu,
    "npu_fusion_attention [2, 16, 1024, 64]": _attention(False),
    "npu_fusion_attention causal [2, 16, 1024, 64]": _attention(True),
}


def results() -> list[Result]:
    """All rows."""
    torch.set_num_threads(THREADS)
    torch_npu.operators.register()
    rows = []
    for name, make in OPERATORS.items():
        for dtype in DTYPES:
            rows += _both(f"{name} {str(dtype).removeprefix('torch.')}", make(dtype))
    return rows
