"""acl.rt: devices, contexts, streams, events, memory. Rows: spec/api/rt.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.rt")
