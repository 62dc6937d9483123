"""Single operators: acl.op and acl.blas."""
