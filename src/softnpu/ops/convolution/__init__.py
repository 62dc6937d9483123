"""Convolutions, transposed ones, and the patches they are made of."""
