"""Bodies of `acl.himpi`: video and JPEG decoding."""
