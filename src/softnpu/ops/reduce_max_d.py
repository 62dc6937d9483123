"""ReduceMaxD: the largest element over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Max")
lower = by_attribute("Max")
