"""Tensors put together and cut into parts."""
