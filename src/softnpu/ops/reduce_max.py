"""ReduceMax: the largest element over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Max")
lower = by_input("Max")
