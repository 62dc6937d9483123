"""Attention of training: the calls, and the core that computes every attention in blocks."""
