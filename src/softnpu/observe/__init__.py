"""Listens to the trace bus and shows what happened. Only watches: nothing here changes a result."""
