"""Comparisons, truth values, choices by them, and bits."""
