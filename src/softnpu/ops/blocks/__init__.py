"""Blocks of pixels that move between space, depth and batch."""
