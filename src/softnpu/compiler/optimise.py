"""The passes of a conversion in their order: fusions, AIPP, precision."""

from __future__ import annotations

from pathlib import Path

from softnpu.compiler.lowering.fold import fold
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Shapes
from softnpu.compiler.passes import fusion, order
from softnpu.compiler.passes.aipp import config as aipp_config
from softnpu.compiler.passes.aipp import fold as aipp_fold
from softnpu.compiler.passes.aipp import insert as aipp_insert
from softnpu.compiler.passes.precision.apply import apply_options
from softnpu.graph.ir import GIVEN, Graph

ONNX = 5


def optimise(graph: Graph, options: Options, wanted: Shapes) -> fusion.FusionReport:
    """Run everything between reading and writing; returns what was fused."""
    report = fusion.FusionReport()
    switches = fusion.read_switches(options.fusion_switch_file or None, options.optimization_switch)
    if options.oo_level != "O1":
        order.run(graph, switches, report)
    _insert_aipp(graph, options, wanted)
    if switches.asked(aipp_fold.NAME, aipp_fold.GROUP):
        report.count(aipp_fold.NAME, aipp_fold.GROUP, *aipp_fold.run(graph))
    _own_outputs(graph)
    _precision(graph, options)
    graph.sort()
    if graph.framework == ONNX:
        infer_graph(graph)
    return report


def _insert_aipp(graph: Graph, options: Options, wanted: Shapes) -> None:
    if not options.insert_op_conf:
        return
    configs = aipp_config.read(Path(options.insert_op_conf))
    aipp_insert.insert(graph, configs, aipp_insert.setting(options, wanted.gears))


def _own_outputs(graph: Graph) -> None:
    """An output that is an input, a constant or another output gets a node of its own: engines do not write such ones."""
    seen: set[int] = set()
    for output in graph.outputs:
        value = output.value
        producer = value.producer
        if id(value) in seen or (producer is not None and producer.type in GIVEN):
            node = graph.op("Identity", [value], f"{value.name}_output")
            node.output.dtype, node.output.shape, node.output.format = value.dtype, value.shape, value.format
            output.value = node.output
        seen.add(id(output.value))


def _precision(graph: Graph, options: Options) -> None:
    if not any(
        options.given(name) for name in ("precision_mode", "precision_mode_v2", "customize_dtypes", "keep_dtype")
    ):
        return
    if apply_options(graph, options):
        graph.exact_casts = True
    fold(graph)
