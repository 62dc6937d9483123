"""Bodies of `acl.himpi`: picture processing."""
