"""Plugins of DataFlow."""
