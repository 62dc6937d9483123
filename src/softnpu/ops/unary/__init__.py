"""Functions of one tensor, element by element."""
