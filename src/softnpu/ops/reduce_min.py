"""ReduceMin: the smallest element over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Min")
lower = by_input("Min")
