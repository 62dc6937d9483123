"""Bodies of acl.rt: devices, contexts, streams, events, memory."""
