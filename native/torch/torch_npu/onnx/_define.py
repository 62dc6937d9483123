"""The meaning of a custom operator, carried by the ONNX file itself: an ONNX function made from the operator's body in torch."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_EXPORTER = "The feature will be removed|You are using the legacy TorchScript-based ONNX export"


def _traced(body: Callable[..., Any], inputs: tuple[torch.Tensor, ...], opset: int) -> Any:
    """The body as an ONNX model of its own."""
    import onnx

    class Body(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return body(*args)

    file: Any = io.BytesIO()  # torch takes it, and says that it takes names only
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _EXPORTER, DeprecationWarning)
        torch.onnx.export(Body().eval(), inputs, file, opset_version=opset, dynamo=False)
    return onnx.load_from_string(file.getvalue())


def define(
    model: str | os.PathLike[str], operator: str, body: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    """Add to the ONNX file `model` what the node type `operator` ("domain::Name") computes.

    `body` is a function of tensors made of torch operators, `inputs` are examples to trace it with. Any ONNX runtime, and atc,
    can run the file then. Attributes of the nodes are not seen by the body."""
    import onnx

    domain, separator, name = operator.partition("::")
    if not separator or not domain or not name:
        raise ValueError(f"operator must be 'domain::Name', not {operator!r}")
    path = Path(model)
    proto = onnx.load(path)
    users = [node for node in proto.graph.node if node.domain == domain and node.op_type == name]
    if not users:
        types = sorted({f"{node.domain}::{node.op_type}" for node in proto.graph.node if node.domain})
        raise ValueError(f"{path} has no node of type {operator}; its own types are {', '.join(types) or 'none'}")
    if any(function.domain == domain and function.name == name for function in proto.functions):
        raise ValueError(f"{path} defines {operator} already")
    opset = next(imported.version for imported in proto.opset_import if imported.domain in ("", "ai.onnx"))
    proto.functions.append(_function(_traced(body, inputs, opset), domain, name, users))
    proto.ir_version = max(proto.ir_version, onnx.IR_VERSION_2021_7_30)  # the first with functions
    onnx.save(proto, path)


def _function(traced: Any, domain: str, name: str, users: list[Any]) -> Any:
    import onnx

    graph = traced.graph
    counts = {(len(node.input), len(node.output)) for node in users}
    if counts != {(len(graph.input), len(graph.output))}:
        raise ValueError(
            f"the body of {domain}::{name} takes {len(graph.input)} tensors and gives {len(graph.output)}; "
            f"its nodes have {', '.join(f'{i} inputs and {o} outputs' for i, o in sorted(counts))}"
        )
    weights = [onnx.helper.make_node("Constant", [], [item.name], value=item) for item in graph.initializer]
    return onnx.helper.make_function(
        domain,
        name,
        [item.name for item in graph.input],
        [item.name for item in graph.output],
        [*weights, *graph.node],
        list(traced.opset_import),
        attributes=sorted({item.name for node in users for item in node.attribute}),
    )
