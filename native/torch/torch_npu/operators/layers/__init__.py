"""The layers of networks without state: activations, norms, losses, products."""
