"""Bodies of `acl.himpi`: PNG decoding."""
