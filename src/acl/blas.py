"""acl.blas: matrix products. Rows: spec/api/blas.toml."""

from acl._lazy import face

__getattr__, __dir__ = face("acl.blas")
