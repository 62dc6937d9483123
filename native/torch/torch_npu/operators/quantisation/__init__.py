"""Values to integers and small floats and back, and products of them."""
