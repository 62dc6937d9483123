"""Models of one operator: from their file to a graph."""
