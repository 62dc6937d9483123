"""Data types of ACL: element sizes and NumPy names, from the rows."""

from __future__ import annotations

from softnpu.spec.tables.dtypes import DTYPES

_UNLISTED_BYTES = 8  # what the published binding answers for a value it does not know


def element_size(data_type: int) -> int:
    """Bytes per element of an aclDataType."""
    row = DTYPES.get(data_type)
    return _UNLISTED_BYTES if row is None or row[1] is None else row[1]


def numpy_name(data_type: int) -> str:
    """The NumPy type of an aclDataType, or "" where NumPy has none."""
    row = DTYPES.get(data_type)
    return row[2] if row is not None else ""
