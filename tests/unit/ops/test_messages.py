"""What cannot be built says why."""

from __future__ import annotations

import pytest

from softnpu.compiler.errors import AtcError
from tests.unit.ops.support import IMAGE, MATRIX, Const, X, compute, floats, run


def test_what_cannot_be_built_says_why() -> None:
    for type_, inputs, attrs, said in (
        ("GeluV2", [MATRIX], {"approximate": "erf"}, "approximate"),
        ("Muls", [MATRIX], {}, "value"),
        ("SwiGlu", [floats(2, 3)], {}, "even"),
        ("StridedSliceV2", [MATRIX, Const([0]), Const([1])], {"begin_mask": 1}, "begin_mask"),
        ("TransData", [MATRIX], {"src_format": "NCHW", "dst_format": "NC1HWC0"}, "NCHW"),
        ("AscendQuant", [MATRIX], {"scale": 1.0, "offset": 0.0, "dst_type": 29}, "dst_type"),
    ):
        with pytest.raises(AtcError, match=said):
            run(type_, inputs, **attrs)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(AtcError, match="lacks the attribute 'dst_type'"):
        compute("Cast", X)
    with pytest.raises(AtcError, match="lacks its input 1"):
        compute("Add", X)
    with pytest.raises(AtcError, match="data format 'NCWX'"):
        compute("MaxPool", IMAGE, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="SAME", data_format="NCWX")
