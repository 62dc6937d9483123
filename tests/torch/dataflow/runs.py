"""Bodies of npu_model nodes, called without an engine."""

from __future__ import annotations

from typing import Any

from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.message import TORCH_TENSOR, Message
from softnpu.flow.plan import BodySpec
from softnpu.flow.values import torch_door


class Sink:
    def __init__(self) -> None:
        self.sent: dict[int, Message] = {}

    def send(self, output: int, message: Message) -> None:
        self.sent[output] = message

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        raise AssertionError("nothing here raises")


def started(node: Any, device: int = 0) -> Any:
    """The body of a level 1 node, as the engine would make it."""
    work = node.point.work
    data = {**work.data, "functions": work.functions, "output_map": list(range(node.output_num))}
    body = load(BodySpec(work.loader, data))
    body.start(InstanceInfo(node.name, node.input_num, node.output_num, device_id=device))
    return body


def call(body: Any, *values: Any, function: int = 0) -> tuple[int, list[Any]]:
    sink = Sink()
    messages = [
        value if isinstance(value, Message) else Message(torch_door.local(value), TORCH_TENSOR) for value in values
    ]
    code = body.call(function, messages, sink)
    return code, [sink.sent[index].payload.value for index in sorted(sink.sent)]
