"""What a message carries: tensors, arrays and objects, and how they become bytes."""
