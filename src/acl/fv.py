"""acl.fv: feature-vector retrieval. Rows: spec/api/fv.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.fv")
