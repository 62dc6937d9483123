"""Bodies of acl.media: the first interface of pictures and video."""
