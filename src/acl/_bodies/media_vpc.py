"""Bodies of `acl.media`: crop, resize, paste, colour."""
