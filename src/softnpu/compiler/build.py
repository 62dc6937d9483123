"""One conversion from beginning to end: read, shape, optimise, lower, check, write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from softnpu.base.dtypes import TensorFormat
from softnpu.compiler.frontends.onnx.table import rename
from softnpu.compiler.inspection import describe, stages
from softnpu.compiler.interface import outputs, shapes
from softnpu.compiler.interface.model_info import describe_model
from softnpu.compiler.load import ONNX, load
from softnpu.compiler.lowering import engine_check
from softnpu.compiler.lowering.fold import fold
from softnpu.compiler.lowering.infer import infer_graph, infer_node
from softnpu.compiler.optimise import optimise
from softnpu.compiler.options.rows import Options
from softnpu.compiler.passes import fusion
from softnpu.compiler.write import output_path, write
from softnpu.graph.ir import GIVEN, Graph

NCHW, NHWC, ND = TensorFormat.NCHW, TensorFormat.NHWC, TensorFormat.ND
NCDHW, NDHWC = TensorFormat.NCDHW, TensorFormat.NDHWC
_FORMATS = {"NCHW": NCHW, "NHWC": NHWC, "ND": ND, "NCDHW": NCDHW, "NDHWC": NDHWC}
_RANKS = {NCHW: 4, NHWC: 4, NCDHW: 5, NDHWC: 5}
Progress = Callable[[str, float], None]


@dataclass
class BuildResult:
    """What a conversion made, and what the user should be told."""

    files: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    info: str = ""


def quiet(_stage: str, _share: float) -> None:
    """Progress that nobody watches."""


def build(options: Options, progress: Progress = quiet) -> BuildResult:
    """Convert a model as the options say; the `.om` appears only when everything went well."""
    result = BuildResult()
    progress("reading the model", 0.0)
    graph, wanted, result.warnings = load(options)
    trail = stages.Trail(options)
    trail.write(graph, "RunParser")
    progress("finding shapes", 0.25)
    shapes.apply(graph, wanted, options.input_format)
    _set_formats(graph, options.input_format)
    outputs.select(graph, options)
    graph.sweep()
    _refuse_unknown(graph, options)
    _infer(graph, options)
    trail.write(graph, "PrepareAfterInferShape")
    progress("optimising", 0.45)
    report = optimise(graph, options, wanted)
    trail.write(graph, "AfterGraphOptimize")
    graph.verify()
    progress("planning", 0.65)
    info = describe_model(graph, wanted, options)
    progress("writing", 0.75)
    path = output_path(options)
    write(graph, info, path, options, check=True)
    trail.write(graph, "Build")
    if options.export_compile_stat:
        fusion.write_result(report, fusion.result_folder())
    result.files.append(path)
    if options.display_model_info:
        result.info = describe.information(path)
    progress("done", 1.0)
    return result


def _set_formats(graph: Graph, name: str) -> None:
    """The layout of the inputs: what --input_format says, where the rank fits."""
    layout = _FORMATS.get(name or "", ND)
    for node in graph.inputs:
        shape = node.output.shape
        node.output.format = layout if shape is not None and len(shape) == _RANKS.get(layout) else ND


def _refuse_unknown(graph: Graph, options: Options) -> None:
    if options.framework == ONNX:
        engine_check.adopt(graph)
        engine_check.refuse_unknown(graph)
        engine_check.fit_opset(graph)


def _infer(graph: Graph, options: Options) -> None:
    """Shapes of everything, constants folded on the way."""
    if options.framework != ONNX:
        for node in graph.nodes:
            if node.type not in GIVEN:
                infer_node(graph, node)
        return
    if options.oo_constant_folding:
        fold(graph)
    else:
        infer_graph(graph)
    rename(graph)
