"""Pixels: formats, pictures in memory, their planes, colours and sizes."""
