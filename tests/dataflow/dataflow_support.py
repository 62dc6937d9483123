"""Small models for the tests of DataFlow, and a way to call a body without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from softnpu.compiler.frontends.tensorflow.proto import GRAPH
from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.message import Message
from softnpu.flow.plan import BodySpec
from softnpu.flow.values import codec
from softnpu.graph.wire import encode

Array = np.ndarray[Any, Any]


class Sink:
    """An outlet that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: dict[int, Message] = {}

    def send(self, output: int, message: Message) -> None:
        self.sent[output] = message

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        raise AssertionError("nothing here raises")


def arithmetic(path: Path, shape: Sequence[int | str] = (2, 3)) -> Path:
    """ONNX: sum = A + B, scaled = sum * A - B."""
    nodes = [
        helper.make_node("Add", ["A", "B"], ["sum"]),
        helper.make_node("Mul", ["sum", "A"], ["product"]),
        helper.make_node("Sub", ["product", "B"], ["scaled"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "AB"]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("sum", "scaled")]
    graph = helper.make_graph(nodes, "arithmetic", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def tensorflow_difference(path: Path, shape: Sequence[int] = (3,)) -> Path:
    """A frozen graph of float placeholders: C = A - B."""
    kind = {"type": 1}
    dims = {"shape": {"dim": [{"size": size} for size in shape]}}
    nodes: list[dict[str, Any]] = [
        {"name": name, "op": "Placeholder", "attr": {"dtype": kind, "shape": dims}} for name in ("A", "B")
    ]
    nodes.append({"name": "C", "op": "Sub", "input": ["A", "B"], "attr": {"T": kind}})
    path.write_bytes(encode(GRAPH, {"node": nodes, "versions": {"producer": 1000}}))
    return path


def tensor(array: Array, trans_id: int = 0) -> Message:
    return Message(codec.encode_tensor(array), trans_id=trans_id)


def started(spec: BodySpec, inputs: int, outputs: int) -> Any:
    body = load(spec)
    body.start(InstanceInfo("node", inputs, outputs))
    return body


def call(body: Any, *messages: Message, function: int = 0) -> tuple[int, dict[int, Message]]:
    sink = Sink()
    return body.call(function, list(messages), sink), sink.sent


def arrays(sent: dict[int, Message]) -> list[Array]:
    return [codec.decode_tensor(sent[index]) for index in sorted(sent)]
