"""Devices, contexts, streams, events and memory. Knows no operator: a stream runs opaque tasks."""
