"""acl.prof: profiling. Rows: spec/api/prof.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.prof")
