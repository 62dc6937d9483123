"""Slices, paddings and turned axes against Python's and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import BLOB, MATRIX, WHOLE, Array, C, Const, F, X, close, compute, match, run, same

SPECS: list[tuple[Any, ...]] = [
    (slice(None),),
    (slice(1, None), slice(None, 2)),
    (slice(None, None, -1),),
    (slice(None), slice(2, 0, -1), slice(None, None, 2)),
    (1,),
    (-1,),
    (slice(None), -2),
    (0, slice(None), 3),
    (..., 2),
    (..., slice(1, 3)),
    (1, ..., slice(None, None, -2)),
    (...,),
    (None, slice(0, 1)),
    (slice(None), None, 0, None),
    (None, ..., -1, None),
    (slice(-2, -1), ..., None, slice(-3, None)),
]


def _spec(index: tuple[Any, ...]) -> tuple[list[list[int]], dict[str, int]]:
    """A Python index as TensorFlow writes it."""
    rows, masks = [], dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for position, part in enumerate(index):
        bit = 1 << position
        if part is None:
            masks["new_axis_mask"] |= bit
            rows.append([0, 0, 1])
        elif part is Ellipsis:
            masks["ellipsis_mask"] |= bit
            rows.append([0, 0, 1])
        elif isinstance(part, slice):
            masks["begin_mask"] |= bit * (part.start is None)
            masks["end_mask"] |= bit * (part.stop is None)
            rows.append([part.start or 0, part.stop or 0, part.step or 1])
        else:
            masks["shrink_axis_mask"] |= bit
            rows.append([part, part + 1, 1])
    return [list(column) for column in zip(*rows, strict=True)], masks


def test_slices_with_axes() -> None:
    cut = [Const(np.array(numbers, np.int64)) for numbers in ([1, 0], [3, 5], [0, 1], [1, 2])]
    close(run("StridedSliceV2", [MATRIX, *cut])[0], MATRIX[1:3, 0:5:2])


def test_padding_in_every_mode() -> None:
    pairs = Const(np.array([[1, 0], [2, 3]], np.int32))
    close(run("PadV3", [MATRIX, pairs, Const(np.float32(7))])[0], np.pad(MATRIX, [(1, 0), (2, 3)], constant_values=7))
    close(run("PadV3", [MATRIX, pairs], mode="reflect")[0], np.pad(MATRIX, [(1, 0), (2, 3)], mode="reflect"))
    close(run("PadV3", [MATRIX, pairs], mode="edge")[0], np.pad(MATRIX, [(1, 0), (2, 3)], mode="edge"))
    close(
        run("PadV3", [MATRIX, Const(np.array([1, 2, 0, 3], np.int64))], paddings_contiguous=False)[0],
        np.pad(MATRIX, [(1, 0), (2, 3)]),
    )


def test_axes_turned_round() -> None:
    same(compute("ReverseV2", X, C([0, -1])), X[::-1, :, ::-1])
    same(compute("ReverseV2", X, C(np.zeros(0, np.int32))), X)


def test_slices() -> None:
    same(compute("Slice", X, C([0, 1, 2]), C([2, -1, 2])), X[:, 1:, 2:4])
    same(compute("Slice", X, np.array([0, 1, 2], np.int32), np.array([2, -1, 2], np.int32)), X[:, 1:, 2:4])
    same(compute("SliceD", X, offsets=[1, 0, 1], size=[1, 2, -1]), X[1:, :2, 1:])
    with pytest.raises(AtcError, match="along axis 1"):
        compute("SliceD", X, offsets=[0, 2, 0], size=[1, 2, 1])
    same(compute("StridedSliceD", X, begin=[0, 1, 3], end=[2, 3, 0], strides=[1, 1, -1]), X[0:2, 1:3, 3:0:-1])
    same(compute("StridedSliceD", X, begin=[1], end=[2]), X[1:2])


@pytest.mark.parametrize("index", SPECS, ids=str)
def test_strided_slices_are_pythons(index: tuple[Any, ...]) -> None:
    columns, masks = _spec(index)
    same(compute("StridedSlice", X, *(C(column) for column in columns), **masks), X[index])
    begin, end = (np.array(column, np.int32) for column in columns[:2])
    same(compute("StridedSlice", X, begin, end, C(columns[2]), **masks), X[index])


def test_strided_slices_refuse() -> None:
    with pytest.raises(AtcError, match="none may be 0"):
        compute("StridedSliceD", X, begin=[0], end=[1], strides=[0])
    with pytest.raises(AtcError, match="2 ellipses"):
        compute("StridedSliceD", X, begin=[0, 0], end=[1, 1], strides=[1, 1], ellipsis_mask=3)
    with pytest.raises(AtcError, match="equally many"):
        compute("StridedSliceD", X, begin=[0, 0], end=[1], strides=[1])
    with pytest.raises(AtcError, match="cuts 4 dims"):
        compute("StridedSliceD", X, begin=[0] * 4, end=[1] * 4)


def test_padding() -> None:
    pads = [(0, 1), (2, 0), (1, 1)]
    same(compute("Pad", X, C(pads)), np.pad(X, pads))
    same(compute("Pad", X, np.array(pads, np.int32)), np.pad(X, pads))
    same(compute("PadD", X, paddings=pads), np.pad(X, pads))
    same(compute("PadV2", X, C(pads), C(2.5, F)), np.pad(X, pads, constant_values=2.5))
    same(
        compute("PadV2", WHOLE, C([(1, 0), (0, 1)]), np.array([4], np.int32)),
        np.pad(WHOLE, [(1, 0), (0, 1)], constant_values=4),
    )
    same(
        compute("MirrorPad", X, C([(1, 0), (2, 1), (0, 3)]), mode="REFLECT"),
        np.pad(X, [(1, 0), (2, 1), (0, 3)], "reflect"),
    )
    same(
        compute("MirrorPad", X, C([(2, 1), (3, 0), (0, 4)]), mode="SYMMETRIC"),
        np.pad(X, [(2, 1), (3, 0), (0, 4)], "symmetric"),
    )
    with pytest.raises(AtcError, match="no more than 3"):
        compute("MirrorPad", X, C([(0, 0), (4, 0), (0, 0)]), mode="SYMMETRIC")
    with pytest.raises(AtcError, match="mode 'EDGE'"):
        compute("MirrorPad", X, C(pads), mode="edge")
    with pytest.raises(AtcError, match="pair of non-negative"):
        compute("Pad", X, C([(0, -1), (0, 0), (0, 0)]))


def test_sequences_turned_round() -> None:
    lengths = np.array([1, 3], np.int32)
    wanted = X.copy()
    for row, length in enumerate(lengths):
        wanted[row, :length] = X[row, :length][::-1]
    same(compute("ReverseSequence", X, lengths, seq_dim=1), wanted)
    moved = X.transpose(2, 1, 0)
    same(compute("ReverseSequence", moved, lengths, seq_dim=1, batch_dim=2), wanted.transpose(2, 1, 0))


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "ReverseV2D": ([BLOB], {"axis": [1, -1]}, BLOB[:, ::-1, :, ::-1]),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)
