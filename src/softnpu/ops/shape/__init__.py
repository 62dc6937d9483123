"""The same elements in another shape, order or number, and what a shape is."""
