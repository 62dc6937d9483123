"""Normalisations over axes, softmax among them."""
