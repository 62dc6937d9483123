"""Mixture of experts on one device: gate, routing, grouped products."""
