"""What a program draws: inputs, nodes, process points and decorated functions, with the user's code as bytes."""
