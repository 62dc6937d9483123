"""Caffe models: a prototxt and a caffemodel become a graph."""

from softnpu.compiler.frontends.caffe.reader import read

__all__ = ["read"]
