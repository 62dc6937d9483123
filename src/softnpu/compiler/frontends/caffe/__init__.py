"""Caffe models: `reader.read` makes a graph of a prototxt and a caffemodel."""
