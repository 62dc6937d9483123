"""Passes around a convolution: what is folded into it and what is named with it."""
