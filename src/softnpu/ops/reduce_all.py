"""ReduceAll: whether all elements are true, over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("All")
lower = by_input("All")
