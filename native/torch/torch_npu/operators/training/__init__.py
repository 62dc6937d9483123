"""Steps of optimizers, and derivatives of aten operators under names of their own."""
