"""Lower types for the tensors of a model, as the options ask for them."""
