"""LSTM: Caffe's long short-term memory over sequences that may begin anywhere (`cont` is 0 there)."""

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.recurrent._recurrent import check, gathered, project, rows, steps, times

SCHEMA = Schema(
    "LSTM",
    ("x", "cont", "w_x", "bias", "w_h", "x_static?", "h_0?", "c_0?", "w_x_static?"),
    ("h", "h_t", "c_t"),
    attrs={"num_output": 0, "expose_hidden": False},
    note="time and batch must be fixed; the loop is unrolled",
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    check(n, 0, 4)
    count, batch = n.shape(0)[:2]
    size = n.shape(4)[1]
    gates = project(b, n, 0, 2, 3)
    if n.has(5):
        gates = b.op("Add", gates, times(b, rows(b, n, 5), n.input(8)))
    marks = steps(b, b.unsqueeze(n.input(1), [2]), count)
    zero = b.const(np.zeros((batch, size), np.float32), max(n.dtype(), 0))
    hidden = rows(b, n, 6) if n.has(6) else zero
    cell = rows(b, n, 7) if n.has(7) else zero
    states = []
    for gate, mark in zip(steps(b, gates, count), marks, strict=True):
        whole = b.op("Add", gate, times(b, b.op("Mul", hidden, mark), n.input(4)))
        take, keep, give, value = b.split(whole, [size] * 4, 1)
        kept = b.op("Mul", b.op("Mul", b.op("Sigmoid", keep), cell), mark)
        cell = b.op("Add", kept, b.op("Mul", b.op("Sigmoid", take), b.op("Tanh", value)))
        hidden = b.op("Mul", b.op("Sigmoid", give), b.op("Tanh", cell))
        states.append(hidden)
    return gathered(b, states), b.unsqueeze(hidden, [0]), b.unsqueeze(cell, [0])
