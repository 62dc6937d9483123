"""ReduceSumD: the sum over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Sum")
lower = by_attribute("Sum")
