"""Bodies of `acl.media`: video decoding."""
