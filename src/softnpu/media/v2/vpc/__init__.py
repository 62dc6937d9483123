"""Channels of picture processing and their calls."""
