"""Bodies of `acl.media`: video encoding."""
