"""Detection boxes and regions of feature maps."""
