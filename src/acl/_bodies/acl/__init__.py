"""Bodies of acl itself: start and stop, descriptions of tensors, buffers."""
