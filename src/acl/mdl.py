"""acl.mdl: models: load, describe, execute. Rows: spec/api/mdl.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.mdl")
