"""Pieces cut out of a tensor, edges put around it, axes turned round."""
