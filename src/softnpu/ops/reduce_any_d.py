"""ReduceAnyD: whether an element is true, over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Any")
lower = by_attribute("Any")
