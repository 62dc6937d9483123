"""ReduceAny: whether an element is true, over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Any")
lower = by_input("Any")
