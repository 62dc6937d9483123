"""Data types by their numbers (aclDataType), and the types that engines lack.

The engines compute some operators in few types only. `DOUBLES` and its like map an aclDataType to the one it is computed in.
"""

from collections.abc import Mapping

from softnpu.base.dtypes import DType

FLOAT, HALF, BFLOAT16, DOUBLE, BOOL = DType.FLOAT, DType.FLOAT16, DType.BF16, DType.DOUBLE, DType.BOOL
INT8, INT16, INT32, INT64 = DType.INT8, DType.INT16, DType.INT32, DType.INT64
UINT8, UINT16, UINT32, UINT64 = DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64
FLOATS = frozenset({FLOAT, HALF, DOUBLE, BFLOAT16})
SHORTS: dict[int, int] = {INT16: INT32, UINT16: INT32}
SMALL: dict[int, int] = {INT8: INT32, UINT8: INT32, INT16: INT32, UINT16: INT32, UINT32: INT64}
DOUBLES: dict[int, int] = {DOUBLE: FLOAT}
NOTHING: Mapping[int, int] = {}
