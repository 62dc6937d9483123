"""acl.op: single operators. Rows: spec/api/op.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.op")
