"""Activations: what a neuron does with its sum."""
