"""TensorFlow's frozen graphs: `reader.read` makes a graph of a GraphDef file."""
