"""User code that workers import by its name, and short ways to draw graphs. Light: a worker imports no pytest for it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import dataflow as df
import dataflow.flow_func as ff

FAILED = 0xFFFFFFFF
EMPTY, FULL = 207013, 207014
EOS, SEG = 1, 2


def same(a):
    return a


def add(a, b):
    return a + b


def gated(a, gate):
    """Waits for a second input: nothing has to sleep to be slow."""
    return a


class Relay:
    """Passes messages on as they are; -1 becomes an error message."""

    @ff.proc_wrapper("i0,o0")
    def go(self, run_context, input_flow_msgs):
        if not input_flow_msgs:  # another node raised for a transaction
            return 0
        msg = input_flow_msgs[0]
        tensor = msg.get_tensor()
        if tensor is not None and tensor.numpy().ravel()[0] == -1:
            failed = run_context.alloc_empty_data_msg()
            failed.set_ret_code(9900007)
            return run_context.set_output(0, failed)
        return run_context.set_output(0, msg)


class Sum:
    """The sum of two tensors; -1000 in the place of one that did not come, and the code that came instead."""

    @ff.proc_wrapper("i0,i1,o0")
    def go(self, run_context, input_flow_msgs):
        values = [-1000 if msg.get_tensor() is None else msg.get_tensor().numpy()[0] for msg in input_flow_msgs]
        codes = [msg.get_ret_code() for msg in input_flow_msgs]
        return run_context.set_output(0, np.array([*values, *codes], np.int64))


class Point:
    """An object with a serializer of its own."""

    def __init__(self, x: int, way: str = "made") -> None:
        self.x = x
        self.way = way


class Child(Point):
    """Exact classes only are registered."""


def point_bytes(point: Point) -> bytes:
    return str(point.x).encode()


def point_of(data: Any) -> Point:
    return Point(int(bytes(data)), "registered")


class Environment:
    """Says, when it is unpickled, what a variable was at that moment."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return environment_now, (self.name,)


def environment_now(name: str) -> str:
    return os.environ.get(name, "not set")


def node(udf: type, inputs: int, outputs: int, **params: Any) -> df.FlowNode:
    """A node around a low-level class."""
    point = df.FuncProcessPoint(py_func=udf)
    for name, value in params.items():
        point.set_init_param(name, value)
    flow_node = df.FlowNode(inputs, outputs)
    flow_node.add_process_point(point)
    return flow_node


def graph_of(decorated: Any, *args: Any) -> tuple[df.FlowData, df.FlowGraph]:
    """A graph of one decorated function with one input."""
    data = df.FlowData()
    outputs = decorated.fnode(*args)(data)
    return data, df.FlowGraph(list(outputs) if isinstance(outputs, tuple) else [outputs])


def batched(batch: df.CountBatch | df.TimeBatch, udf: type = Relay) -> tuple[df.FlowData, df.FlowGraph]:
    """A graph of one node with a batch on its input."""
    data = df.FlowData()
    flow_node = node(udf, 1, 1)
    flow_node.map_input(0, flow_node.point, 0, [batch])
    return data, df.FlowGraph([flow_node(data)])


def value(fetched: tuple[list[df.Tensor], df.FlowInfo, int]) -> Any:
    """The tensor that was fetched, as lists; the code if it is not 0."""
    tensors, _, code = fetched
    return code if code else tensors[0].numpy().tolist()
