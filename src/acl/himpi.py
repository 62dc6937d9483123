"""acl.himpi: media processing, version 2. Rows: spec/api/himpi.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.himpi")
