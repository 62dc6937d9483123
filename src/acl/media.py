"""acl.media: media processing, version 1. Rows: spec/api/media.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.media")
