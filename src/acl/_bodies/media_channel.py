"""Bodies of `acl.media`: picture-processing channels."""
