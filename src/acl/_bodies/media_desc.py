"""Bodies of `acl.media`: descriptions of pictures, streams, regions and settings."""
