"""TopKV2: the k largest elements along a dim, and where they are."""

from softnpu.ops._schema import Schema
from softnpu.ops._top import ATTRS, by_input

SCHEMA = Schema("TopKV2", ("x", "k"), ("values", "indices"), attrs=dict(ATTRS))
lower = by_input
