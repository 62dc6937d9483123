"""ReduceSum: the sum over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Sum")
lower = by_input("Sum")
