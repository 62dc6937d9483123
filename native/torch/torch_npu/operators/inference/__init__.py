"""Attention of inference and what surrounds it: caches, sampling."""
