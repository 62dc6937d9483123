"""A graph as a picture needs it: boxes and lines. Made from a drawn graph; models are not compiled for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softnpu.flow.drawing.nodes import ATTR_DEPTH, ATTR_POLICY, CountBatch, FlowData, FlowNode
from softnpu.flow.drawing.process_point import FUNCTION

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph

NPU_MODEL, INPUT, OUTPUT = "npu_model", "input", "output"  # beside the kinds of process points


@dataclass
class Box:
    """A node, or an input or output of the graph."""

    name: str
    kind: str
    lines: list[str] = field(default_factory=list)  # what it is, in small print
    numbers: list[str] = field(default_factory=list)  # live
    alarm: bool = False  # calls of it failed, or it stands
    instances: int = 1
    inputs: int = 0
    outputs: int = 0


@dataclass(frozen=True)
class Line:
    """From an output of a box to an input of another."""

    start: int
    output: int
    end: int
    input: int
    label: str = ""


@dataclass
class Sketch:
    """All of it."""

    name: str
    boxes: list[Box]
    lines: list[Line]


def sketch(graph: FlowGraph) -> Sketch:
    """Inputs first, then nodes, then outputs in the program's order."""
    drawing = graph._drawing
    boxes = [Box(data.name, INPUT, _schema(data), outputs=1) for data in drawing.inputs]
    where: dict[FlowData | FlowNode, int] = {data: index for index, data in enumerate(drawing.inputs)}
    for node in drawing.nodes:
        where[node] = len(boxes)
        boxes.append(_box(node))
    lines = []
    for node in drawing.nodes:
        for index, source in enumerate(node._input_anchors):
            if isinstance(source, FlowData):
                lines.append(Line(where[source], 0, where[node], index, _label(node, index)))
            elif source is not None:
                lines.append(Line(where[source.node], source.index, where[node], index, _label(node, index)))
    for index, output in enumerate(graph._outputs):
        lines.append(Line(where[output.node], output.index, len(boxes), 0))
        boxes.append(Box(f"output {index}", OUTPUT, inputs=1))
    return Sketch(graph.name, boxes, lines)


def _schema(data: FlowData) -> list[str]:
    schema = data._schema
    return [] if schema is None else [str(schema)] if len(str(schema)) < 40 else []


def _box(node: FlowNode) -> Box:
    point = node.point
    lines = [f"alias {node.alias}"] if node.alias and node.alias != node.name else []
    kind = FUNCTION
    if point is not None:
        kind = point._kind
        lines += point._small_print(node.name)
    if node.on_device or node.attributes.get("_npu_sched_model") == 1:
        kind = NPU_MODEL
    queue = [f"depth {node.attributes[ATTR_DEPTH]}"] if ATTR_DEPTH in node.attributes else []
    if node.attributes.get(ATTR_POLICY) == "OVERWRITE":
        queue.append("keeps the newest")
    if queue:
        lines.append("queue: " + ", ".join(queue))
    if node.balance:
        lines.append(f"balance {node.balance}")
    return Box(node.name, kind, lines, inputs=node.input_num, outputs=node.output_num)


def _label(node: FlowNode, index: int) -> str:
    batch = node.batches.get(index)
    if batch is None:
        return ""
    return f"batch of {batch.batch_size}" if isinstance(batch, CountBatch) else f"window {batch.time_window}"
