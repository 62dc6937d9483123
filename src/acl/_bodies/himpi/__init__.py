"""Bodies of acl.himpi: the second interface of pictures and video."""
