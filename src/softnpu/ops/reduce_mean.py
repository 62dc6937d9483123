"""ReduceMean: the mean over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Mean")
lower = by_input("Mean")
