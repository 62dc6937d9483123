"""ReduceProd: the product over axes."""

from softnpu.ops._reduce import by_input, schema

SCHEMA = schema("Prod")
lower = by_input("Prod")
