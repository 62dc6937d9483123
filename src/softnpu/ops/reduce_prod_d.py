"""ReduceProdD: the product over axes that are an attribute."""

from softnpu.ops._reduce import by_attribute, schema_d

SCHEMA = schema_d("Prod")
lower = by_attribute("Prod")
