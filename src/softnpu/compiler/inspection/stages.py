"""DUMP_GE_GRAPH: the graph after each stage of a conversion, as the text form of a ModelDef and as ONNX text."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from softnpu.base import config
from softnpu.compiler.options.rows import Options
from softnpu.graph.ir import Graph
from softnpu.graph.model_def import MODEL
from softnpu.graph.om_writer import graph_def
from softnpu.graph.onnx_def import MODEL as ONNX_MODEL
from softnpu.graph.onnx_def import make_attribute, make_value_info
from softnpu.graph.program import Weights
from softnpu.graph.text import render

_MAIN = ("RunParser", "PrepareAfterInferShape", "AfterGraphOptimize", "Build")
WITH_WEIGHTS, WITHOUT_WEIGHTS, STRUCTURE = 1, 2, 3
_LEVEL_LAST, _LEVEL_FIRST = 3, 4
_INLINE_BYTES = 1 << 16
_SHOWN = (bool, int, float, str)


class Trail:
    """Writes stages as the environment asks for them, numbered in their order."""

    def __init__(self, options: Options) -> None:
        self.content, self.level, folder = config.graph_dumps()
        self.folder = folder / f"pid_{os.getpid()}_deviceid_{options.device_id}" if config.work_path() else folder
        self._numbers = itertools.count(1)

    def write(self, graph: Graph, stage: str) -> None:
        """Write one stage, if it is asked for."""
        if (
            not self.content
            or (self.level == _LEVEL_LAST and stage != _MAIN[-1])
            or (self.level == _LEVEL_FIRST and stage != _MAIN[0])
        ):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        message = {"name": graph.name, "version": 1, "graph": [self._graph(graph)]}
        number = f"{next(self._numbers):08d}_graph_0_{stage}"
        _replace(self.folder / f"ge_proto_{number}.txt", render(MODEL, message))
        _replace(self.folder / f"ge_onnx_{number}.pbtxt", render(ONNX_MODEL, _as_onnx(graph)))

    def _graph(self, graph: Graph) -> dict[str, object]:
        weights = Weights()
        message = graph_def(graph, weights)
        if self.content == WITH_WEIGHTS:
            contents = {
                node.name: node.data
                for node in graph.nodes
                if node.data is not None and len(node.data.data) <= _INLINE_BYTES
            }
            for op in message["op"]:
                if op["name"] in contents:
                    op["attr"]["value"]["t"]["data"] = bytes(contents[op["name"]].data)
        if self.content == STRUCTURE:
            for op in message["op"]:
                op["attr"] = {}
        return message


def _as_onnx(graph: Graph) -> dict[str, Any]:
    """The graph as an ONNX model whose operators have CANN's names, for viewers."""
    nodes = []
    for node in graph.nodes:
        kept = {key: value for key, value in node.attrs.items() if isinstance(value, _SHOWN)}
        nodes.append(
            {
                "input": [value.name if value is not None else "" for value in node.inputs],
                "output": [value.name for value in node.outputs],
                "name": node.name,
                "op_type": f"ge:{node.type}",
                "attribute": [make_attribute(key, value) for key, value in kept.items()],
            }
        )
    values = [make_value_info(value.name, value.dtype, value.shape) for value in graph.values()]
    outputs = [make_value_info(output.value.name, output.value.dtype, output.value.shape) for output in graph.outputs]
    inside = {"node": nodes, "name": graph.name or "graph", "output": outputs, "value_info": values}
    return {"ir_version": 4, "producer_name": "GE", "graph": inside}


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
