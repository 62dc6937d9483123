"""Unsqueeze: dims of size 1 inserted."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Unsqueeze", attrs={"axes": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return b.unsqueeze(n.input(0), [int(axis) for axis in n.need("axes")])
