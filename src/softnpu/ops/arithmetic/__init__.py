"""Sums, products and quotients of several tensors, element by element."""
