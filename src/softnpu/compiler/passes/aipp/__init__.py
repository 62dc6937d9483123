"""AIPP: the preparation of pictures in front of the first operator."""
