"""acl.util: pointers, bytes, arrays, threads. Rows: spec/api/util.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.util")
