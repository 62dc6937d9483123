"""Readers of model files; each turns one format into the graph form."""
