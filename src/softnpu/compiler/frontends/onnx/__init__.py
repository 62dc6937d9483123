"""ONNX models: `reader.read` makes a graph of a ModelProto file."""
