"""Elements chosen or written by their indices."""
