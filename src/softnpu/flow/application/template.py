"""The deployment file that a graph would need, as a start for editing."""

from __future__ import annotations

import json
from pathlib import Path

from softnpu.flow.application.graph import FlowGraph


def generate_deploy_template(graph: FlowGraph, file_path: str) -> None:
    """Write a deployment file that puts every node on device 0."""
    rows = [{"flow_node_list": [node.alias or node.name], "logic_device_list": "0:0:0:0"} for node in graph.nodes]
    Path(file_path).write_text(json.dumps({"batch_deploy_info": rows}, indent=4), encoding="utf-8")
    print(f"A deployment template for {len(rows)} nodes was written to {file_path}.")
