"""Attention over chosen keys."""
