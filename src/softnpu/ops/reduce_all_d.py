"""ReduceAllD: whether all elements are true, over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("All")
lower = by_attribute("All")
