"""Bodies that many operators share."""

from __future__ import annotations

from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Lower


def plain(word: str) -> Lower:
    """The ONNX operator `word` with the same inputs and no attributes."""

    def lower(b: Builder, n: Site) -> str:
        return str(b.op(word, *n.inputs))

    return lower
