"""Products of matrices, and what is asked of a matrix."""
