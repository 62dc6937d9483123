"""A stand-in for an array that turns what the layouts do with it (pad, reshape, transpose, cut) into ONNX operators."""

from __future__ import annotations

import math
from typing import Any

from softnpu.ops.common.builder import Builder, Shape


class Traced:
    """Looks like an array of known shape; every operation adds a call to the builder."""

    def __init__(self, b: Builder, name: str, shape: Shape, dtype: int) -> None:
        self.builder, self.name, self.shape, self.acl = b, name, tuple(shape), dtype
        self.ndim = len(self.shape)

    def _next(self, name: str, shape: Shape) -> Traced:
        return Traced(self.builder, name, shape, self.acl)

    def reshape(self, *shape: Any) -> Traced:
        """As NumPy's; one dim may be -1."""
        wanted = tuple(int(dim) for dim in (shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape))
        rest = math.prod(dim for dim in wanted if dim >= 0)
        wanted = tuple(math.prod(self.shape) // rest if dim < 0 else dim for dim in wanted)
        return self if wanted == self.shape else self._next(self.builder.reshape(self.name, wanted), wanted)

    def transpose(self, *axes: Any) -> Traced:
        """As NumPy's."""
        order = tuple(axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)
        if order == tuple(range(self.ndim)):
            return self
        return self._next(self.builder.transpose(self.name, order), tuple(self.shape[axis] for axis in order))

    def pad(self, widths: list[tuple[int, int]]) -> Traced:
        """Zeros behind every dim."""
        before, after = [width for width, _ in widths], [width for _, width in widths]
        shape = tuple(dim + more for dim, more in zip(self.shape, after, strict=True))
        return self._next(self.builder.pad(self.name, before, after, dtype=self.acl), shape)

    def __getitem__(self, key: Any) -> Traced:
        parts = key if isinstance(key, tuple) else (key,)
        if Ellipsis in parts:
            position = parts.index(Ellipsis)
            parts = (*parts[:position], *[slice(None)] * (self.ndim - len(parts) + 1), *parts[position + 1 :])
        ends = {axis: min(part.stop, self.shape[axis]) for axis, part in enumerate(parts) if part.stop is not None}
        shape = tuple(ends.get(axis, dim) for axis, dim in enumerate(self.shape))
        if shape == self.shape:
            return self
        return self._next(self.builder.slice(self.name, [0] * len(ends), list(ends.values()), list(ends)), shape)
