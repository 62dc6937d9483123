"""Passes that know a group of nodes as one operator."""
