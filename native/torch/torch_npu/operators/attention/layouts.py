"""Layouts of attention: views from the caller's order to [batch, heads, rows, width] and back; sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported

_DIMS = {"BSH": 3, "SBH": 3, "BSND": 4, "BNSD": 4, "TND": 3, "NTD": 3, "NSD": 3, "BNSD_BSND": 4}
TRAINING = ("BSH", "SBH", "BSND", "BNSD", "TND")


def check_layout(layout: str, allowed: tuple[str, ...], name: str) -> str:
    upper = layout.upper()
    require(
        upper in allowed,
        lambda: f"{name}: input_layout must be one of {', '.join(allowed)}, not {layout!r}",
        ErrCode.VALUE,
    )
    return upper


def to_heads(x: Tensor, layout: str, heads: int, what: str) -> Tensor:
    """A view as [batch, heads, rows, width]; for TND one batch."""
    require(
        x.dim() == _DIMS[layout], lambda: f"{what} has {x.dim()} dimensions; input_layout {layout} has {_DIMS[layout]}"
    )
    if layout in ("BSH", "SBH"):
        require(
            heads > 0 and x.shape[-1] % heads == 0,
            lambda: f"{what}: a hidden size of {x.shape[-1]} cannot be split into {heads} heads",
        )
        split = x.view(*x.shape[:-1], heads, x.shape[-1] // heads)  # unflatten needs ONNX opset 13
        return split.transpose(1, 2) if layout == "BSH" else split.permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "TND":
        return x.transpose(0, 1).unsqueeze(0)
    return x if x.dim() == 4 else x.unsqueeze(0)


def from_heads(x: Tensor, layout: str) -> Tensor:
    """The way back; a view where the memory order allows."""
    if layout in ("BSND", "BNSD_BSND"):
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    if layout == "TND":
        return x.squeeze(0).transpose(0, 1)
    return x.squeeze(0) if layout in ("NSD", "NTD") else x


@dataclass(frozen=True)
class Operands:
    """Query, key and value as [batch, heads, rows, width]."""

    q: Tensor
    k: Tensor
    v: Tensor

    @property
    def group(self) -> int:
        return self.q.shape[1] // self.k.shape[1]


def operands(
    query: Tensor, key: Tensor, value: Tensor, heads: int, layout: str, name: str, kv_heads: int = 0
) -> Operands:
    """Check the three against each other and turn them; kv_heads 0 is found from the sizes."""
    require(heads > 0, lambda: f"{name}: the number of heads must be positive, not {heads}", ErrCode.VALUE)
    require(
        query.dtype == key.dtype == value.dtype,
        lambda: f"{name}: query, key and value must have one dtype, not {query.dtype}, {key.dtype}, {value.dtype}",
        ErrCode.TYPE,
    )
    q = to_heads(query, layout, heads, f"{name}: query")
    if layout in ("BSH", "SBH") and kv_heads == 0:
        width = q.shape[-1]
        require(
            width > 0 and key.shape[-1] % width == 0,
            lambda: (
                f"{name}: a key of hidden size {key.shape[-1]} cannot be split into heads of the query's width {width}"
            ),
        )
        kv_heads = key.shape[-1] // width
    k = to_heads(key, layout, kv_heads, f"{name}: key")
    v = to_heads(value, layout, kv_heads, f"{name}: value")
    require(q.shape[1] == heads, lambda: f"{name}: the query has {q.shape[1]} heads, {heads} are named")
    check_operands(q, k, v, name)
    return Operands(q, k, v)


def check_operands(q: Tensor, k: Tensor, v: Tensor, name: str) -> None:
    require(
        q.shape[0] == k.shape[0] == v.shape[0],
        lambda: f"{name}: batches of query, key and value differ: {q.shape[0]}, {k.shape[0]}, {v.shape[0]}",
    )
    require(
        k.shape[1] > 0 and k.shape[1:3] == v.shape[1:3],
        lambda: f"{name}: heads and length of key {tuple(k.shape[1:3])} and value {tuple(v.shape[1:3])} must be equal",
    )
    require(
        q.shape[1] % k.shape[1] == 0,
        lambda: f"{name}: {q.shape[1]} heads of query are no multiple of {k.shape[1]} heads of key",
        ErrCode.VALUE,
    )
    require(
        q.shape[3] == k.shape[3], lambda: f"{name}: query has width {q.shape[3]}, key {k.shape[3]}; they must be equal"
    )


def lengths(cumulative: list[int] | Tensor | None, total: int, what: str) -> list[int]:
    """Lengths of sequences from their ends. The ends decide how a tensor is cut, so they have to be numbers."""
    if cumulative is None:
        raise RuntimeError(f"{what} is needed for input_layout TND: the cumulative lengths of the sequences")
    if isinstance(cumulative, Tensor):
        if isinstance(cumulative, torch._subclasses.FakeTensor):
            raise unsupported(f"{what} as a tensor cannot be traced: the lengths must be known; pass a list")
        cumulative = cumulative.tolist()
    ends = [int(end) for end in cumulative]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    require(
        all(size >= 0 for size in sizes) and (not ends or ends[-1] <= total),
        lambda: f"{what} must not fall and must end at {total} at most, not {ends}",
        ErrCode.VALUE,
    )
    return sizes


def cut(x: Tensor, sizes: list[int], dim: int) -> list[Tensor]:
    """Pieces along a dimension; what is left over is no piece. One split: the gradient is then one cat."""
    rest = x.shape[dim] - sum(sizes)
    return list(x.split_with_sizes([*sizes, rest], dim))[: len(sizes)]


def joined(pieces: list[Tensor], dim: int, total: int, make: Callable[..., Tensor]) -> Tensor:
    """Pieces put together, zeros where rows belong to no sequence; `make` makes a tensor like a piece of a given length."""
    rest = total - sum(piece.shape[dim] for piece in pieces)
    if len(pieces) == 1 and not rest:
        return pieces[0]
    return torch.cat([*pieces, make(rest)] if rest or not pieces else pieces, dim)
