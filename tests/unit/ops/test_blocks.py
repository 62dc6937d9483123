"""Blocks of pixels between space, depth and batch, against NumPy and darknet's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import BLOB, Array, C, compute, floats, match, nchw, rand, same


def reorg(x: Array, stride: int, forward: bool) -> Array:
    """darknet's loop over a flat buffer."""
    n, c, h, w = x.shape
    out_c, flat, actual = c // stride**2, x.reshape(-1), np.zeros(x.size, x.dtype)
    for b in range(n):
        for k in range(c):
            for j in range(h):
                for i in range(w):
                    here = i + w * (j + h * (k + c * b))
                    offset = k // out_c
                    there = (
                        i * stride
                        + offset % stride
                        + w * stride * (j * stride + offset // stride + h * stride * (k % out_c + out_c * b))
                    )
                    if forward:
                        actual[there] = flat[here]
                    else:
                        actual[here] = flat[there]
    return actual


def test_blocks() -> None:
    x = floats(2, 4, 6, 3)
    deep = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 12)
    same(compute("SpaceToDepth", x, block_size=2), deep)
    same(compute("DepthToSpace", deep, block_size=2), x)
    same(compute("SpaceToDepth", nchw(x), block_size=2, data_format="NCHW"), nchw(deep))
    same(compute("DepthToSpace", (deep * 10).astype(np.int32), block_size=2), (x * 10).astype(np.int32))
    crd = deep.reshape(2, 2, 3, 3, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 4, 6, 3)
    same(compute("DepthToSpace", deep, block_size=2, mode="CRD"), crd)
    x = floats(2, 3, 5, 3)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 1), (0, 0)])
    batches = padded.reshape(2, 2, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 2, 2, 3)
    blocks, pads = C([2, 3]), C([(1, 0), (0, 1)])
    same(compute("SpaceToBatchND", x, blocks, pads), batches)
    same(compute("BatchToSpaceND", batches, blocks, pads), x)
    same(compute("SpaceToBatchND", x, blocks, pads, free=True), batches)
    same(compute("BatchToSpaceND", batches, blocks, pads, free=True), x)
    with pytest.raises(AtcError, match="multiples of the blocks"):
        compute("SpaceToBatchND", x, C([3, 3]), pads)


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "ShuffleChannel": ([BLOB], {"group": 2}, BLOB[:, [0, 2, 1, 3]]),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)


def test_pass_through_is_darknets_reorg() -> None:
    x = rand(2, 8, 4, 6)
    match(op("PassThrough", x, stride=2)[0], reorg(x, 2, False).reshape(2, 32, 2, 3))
    match(op("PassThrough", x, stride=2, reverse=True)[0], reorg(x, 2, True).reshape(2, 2, 8, 12))
