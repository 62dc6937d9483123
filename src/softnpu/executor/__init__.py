"""From an .om to results. So far: datasets, which need no model."""
