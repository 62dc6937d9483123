"""torch in DataFlow."""
