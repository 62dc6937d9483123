"""Axes that become one number: sums, extremes, the places of extremes."""
