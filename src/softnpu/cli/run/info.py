"""What `softnpu info` tells about a compiled model: where it comes from, its inputs and outputs, its operators."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from softnpu.base.units import human
from softnpu.cli.run.report import Grid, draw, show_lines, tensor_dict, tensor_grid
from softnpu.graph.om import ModelInfo, Om

_FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow", "5": "ONNX"}
_INTERNAL = frozenset({"softnpu", "om_info_list", "name", "atc_cmdline", "memory_size", "weight_size"})
_GEARS = {"batch": "batch sizes", "hw": "resolutions", "dims": "dims"}


def show(path: Path, as_json: bool) -> None:
    """Print the description of a model."""
    om = Om.open(path)
    head, info = om.head(), om.info()
    operators = count_operators(om)
    if as_json:
        print(json.dumps(_dict(path, om, head, info, operators), indent=2, ensure_ascii=False))
        return
    show_lines(_about(path, om, head, info))
    draw(tensor_grid(info))
    if info.gears:
        show_lines([(_GEARS[info.gear_kind], "; ".join(",".join(map(str, gear)) for gear in info.gears))])
    rows = [(name, str(count)) for name, count in operators.most_common()]
    rows.append(("all", str(operators.total())))
    draw(Grid("", ("operator", "count"), rows))
    attributes = sorted((name, str(value)) for name, value in head.items() if name not in _INTERNAL)
    draw(Grid("", ("attribute", "value"), attributes, left=2))


def count_operators(om: Om) -> Counter[str]:
    """How many operators of each type a model has; constants and the ends of the graph are none."""
    kinds = Counter(str(op.get("type", "")) for graph in om.model_def().get("graph", ()) for op in graph.get("op", ()))
    for kind in ("Const", "Constant", "Data", "NetOutput"):
        del kinds[kind]
    return kinds


def _about(path: Path, om: Om, head: dict[str, Any], info: ModelInfo) -> list[tuple[str, str]]:
    framework = str(head.get("framework_type", ""))
    return [
        ("model", f"{path} ({head['name']}), {human(len(om.data))}"),
        (
            "made from",
            f"{_FRAMEWORKS.get(framework, f'framework {framework}')} for {head.get('soc_version') or 'no named chip'}",
        ),
        ("command", str(head.get("atc_cmdline", "")) or "not recorded"),
        ("memory", f"{human(info.memory_size)} to work in, {human(info.weight_size)} of weights"),
    ]


def _dict(path: Path, om: Om, head: dict[str, Any], info: ModelInfo, operators: Counter[str]) -> dict[str, Any]:
    return {
        "model": str(path),
        "name": head["name"],
        "bytes": len(om.data),
        "memory_size": info.memory_size,
        "weight_size": info.weight_size,
        "command": head.get("atc_cmdline", ""),
        "inputs": [tensor_dict(tensor) for tensor in info.inputs],
        "outputs": [tensor_dict(tensor) for tensor in info.outputs],
        "gear_kind": info.gear_kind,
        "gears": info.gears,
        "operators": dict(operators.most_common()),
        "attributes": {name: value for name, value in head.items() if name not in _INTERNAL},
    }
