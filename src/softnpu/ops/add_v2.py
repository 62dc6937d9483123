"""AddV2: x1 + x2, by TensorFlow's later name."""

from softnpu.ops._math import binary
from softnpu.ops._schema import Schema

SCHEMA = Schema("AddV2", ("x1", "x2"))
lower = binary("Add")
