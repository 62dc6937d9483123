"""Bodies of `acl.media`: JPEG and PNG."""
