"""Tensors from nothing but a shape: constants, ranges, random numbers."""
