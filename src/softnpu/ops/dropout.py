"""Dropout: nothing at inference."""

from softnpu.ops._common import plain
from softnpu.ops._schema import Schema

SCHEMA = Schema("Dropout", attrs={"dropout_ratio": 0.5, "scale_train": True})
lower = plain("Identity")
