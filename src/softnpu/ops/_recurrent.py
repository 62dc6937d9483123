"""What Caffe's recurrent layers share: sequences [time, batch, …] with a mark where one goes on."""

from __future__ import annotations

import math

from softnpu.ops._lower import Builder, OpError, Site


def project(b: Builder, n: Site, x: int, weight: int, bias: int | None) -> str:
    """Rows of an input, flattened from the third dim on, times a weight [out, in]: [time, batch, out]."""
    steps, batch, *rest = n.shape(x)
    depth, out = math.prod(rest), n.shape(weight)[0]
    if steps < 1 or batch < 1 or n.shape(weight)[1] != depth:
        raise OpError(
            f"{n.type} {n.name!r} has a sequence of shape {list(n.shape(x))} for weights {list(n.shape(weight))}; time and batch must be "
            "known, the rest must be what the weights take"
        )
    rows = b.reshape(n.input(x), [steps * batch, depth])
    found = b.op("Gemm", rows, n.input(weight), n.inputs[bias] if bias is not None else None, transB=1)
    return b.reshape(found, [steps, batch, out])


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
    return [b.squeeze(one, [0]) for one in b.split(x, [1] * count, 0)]


def gathered(b: Builder, parts: list[str]) -> str:
    """Steps as a sequence."""
    found = [b.unsqueeze(one, [0]) for one in parts]
    return found[0] if len(found) == 1 else str(b.op("Concat", *found, axis=0))
