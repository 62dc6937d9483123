"""Reading a model file: the frontend of its framework makes a graph of it."""

from __future__ import annotations

from pathlib import Path

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.caffe import reader as caffe
from softnpu.compiler.frontends.onnx import reader as onnx
from softnpu.compiler.frontends.tensorflow import reader as tensorflow
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Shapes, parse
from softnpu.graph.ir import Graph

CAFFE, MINDSPORE, TENSORFLOW, ONNX = 0, 1, 3, 5


def load(options: Options) -> tuple[Graph, Shapes, list[str]]:
    """The graph of the model file, what the options say about its shapes, and warnings for the user."""
    wanted = parse(options)
    path = Path(options.model)
    name = Path(options.output).name if options.output else path.stem
    if options.framework == ONNX:
        graph, warnings = onnx.read(path)
    elif options.framework == CAFFE:
        types = caffe.read_type_names(Path(options.op_name_map)) if options.op_name_map else {}
        sizes = {key: tuple(dims) for key, dims in wanted.known().items()}
        graph, warnings = caffe.read(path, Path(options.weight), name, sizes, types)
    elif options.framework == TENSORFLOW:
        graph, warnings = tensorflow.read(path, name, options.input_format, wanted.known())
    else:
        raise AtcError(
            "E10055",
            "MindSpore models (--framework=1, .air) are not supported",
            "this atc has no reader for MindSpore's format",
            "export the model to ONNX (mindspore.export with file_format='ONNX') and use --framework=5",
        )
    graph.name = name
    return graph, wanted, warnings
