"""Bodies of `acl.himpi`: video and JPEG encoding."""
