"""Tables that scripts/generate_torch.py writes."""
