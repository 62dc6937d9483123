"""Edits of a source: who notes them and who applies them."""
