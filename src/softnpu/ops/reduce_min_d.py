"""ReduceMinD: the smallest element over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Min")
lower = by_attribute("Min")
