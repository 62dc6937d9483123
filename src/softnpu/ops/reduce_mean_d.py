"""ReduceMeanD: the mean over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Mean")
lower = by_attribute("Mean")
