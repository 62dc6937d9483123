"""Data types by their numbers (aclDataType), and the types that engines lack.

The engines compute some operators in few types only. `DOUBLES` and its like map an aclDataType to the one it is computed in.
"""

from collections.abc import Mapping

FLOAT, HALF, INT8, INT32, UINT8 = 0, 1, 2, 3, 4
INT16, UINT16, UINT32, INT64, UINT64, DOUBLE, BOOL = 6, 7, 8, 9, 10, 11, 12
BFLOAT16 = 27
FLOATS = frozenset({FLOAT, HALF, DOUBLE, BFLOAT16})
SHORTS = {INT16: INT32, UINT16: INT32}
SMALL = {INT8: INT32, UINT8: INT32, INT16: INT32, UINT16: INT32, UINT32: INT64}
DOUBLES = {DOUBLE: FLOAT}
NOTHING: Mapping[int, int] = {}
