"""Products and dispatches with a collective before or after them."""
