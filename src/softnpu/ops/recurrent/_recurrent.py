"""What Caffe's recurrent layers share: sequences [time, batch, …] with a mark where one goes on."""

from __future__ import annotations

import math

from softnpu.ops.common.builder import Builder, OpError, Site

MAX_STEPS = 4096  # the loop is unrolled


def check(n: Site, x: int, hidden: int) -> None:
    """Refuse sequences that cannot be unrolled, and weights of hidden states that are no matrix."""
    shape = n.shape(x)
    if (
        len(shape) < 2
        or not 1 <= shape[0] <= MAX_STEPS
        or shape[1] < 1
        or -1 in shape
        or n.rank(hidden) != 2
        or n.shape(1) != shape[:2]
    ):
        raise OpError(
            f"{n.type} {n.name!r} has a sequence of shape {list(shape)}, marks {list(n.shape(1))} and hidden weights {list(n.shape(hidden))}; "
            f"it takes [time, batch, …] of 1 to {MAX_STEPS} steps with known dims, [time, batch], and [gates, size]"
        )


def project(b: Builder, n: Site, x: int, weight: int, bias: int | None) -> str:
    """Rows of an input, flattened from the third dim on, times a weight [out, in]: [time, batch, out]."""
    steps, batch, *rest = n.shape(x)
    depth = math.prod(rest)
    if n.rank(weight) != 2 or n.shape(weight)[1] != depth:
        raise OpError(
            f"{n.type} {n.name!r} has rows of {depth} values for weights {list(n.shape(weight))}; they must be [out, {depth}]"
        )
    out = n.shape(weight)[0]
    rows = b.reshape(n.input(x), [steps * batch, depth])
    product = b.op("Gemm", rows, n.input(weight), n.inputs[bias] if bias is not None else None, transB=1)
    return b.reshape(product, [steps, batch, out])


def rows(b: Builder, n: Site, x: int) -> str:
    """A tensor [1, batch, …] or [batch, …] as [batch, features]."""
    shape = n.shape(x)
    batch = n.shape(0)[1]
    return b.reshape(n.input(x), [batch, math.prod(shape) // batch])


def times(b: Builder, x: str, weight: str) -> str:
    """x · weightᵀ."""
    return str(b.op("Gemm", x, weight, transB=1))


def steps(b: Builder, x: str, count: int) -> list[str]:
    """A sequence as its steps, each [batch, …]."""
    return [b.squeeze(step, [0]) for step in b.split(x, [1] * count, 0)]


def gathered(b: Builder, parts: list[str]) -> str:
    """Steps as a sequence."""
    unsqueezed = [b.unsqueeze(part, [0]) for part in parts]
    return unsqueezed[0] if len(unsqueezed) == 1 else str(b.op("Concat", *unsqueezed, axis=0))
