"""Bodies of `acl.media`: media memory."""
