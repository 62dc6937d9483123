"""Streams: ordered work, and what can be waited for."""
