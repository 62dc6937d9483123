"""Tables written by scripts/generate_torch.py."""
