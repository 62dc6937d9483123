"""What operators of all families use: the builder, schemas, inputs, types and formats."""
