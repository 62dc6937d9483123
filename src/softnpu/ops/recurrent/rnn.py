"""RNN: Caffe's plain recurrent layer: h = tanh(W_hh·h + W_xh·x + b_h), o = tanh(W_ho·h + b_o)."""

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.recurrent._recurrent import check, gathered, project, rows, steps, times

SCHEMA = Schema(
    "RNN",
    ("x", "cont", "x_static?", "h_0?", "w_xh", "bias_h", "w_sh?", "w_hh", "w_ho", "bias_o"),
    ("o", "h_t"),
    attrs={"num_output": 0, "expose_hidden": False},
    note="time and batch must be fixed; the loop is unrolled",
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    check(n, 0, 7)
    count, batch = n.shape(0)[:2]
    size = n.shape(7)[1]
    inner = project(b, n, 0, 4, 5)
    if n.has(2):
        inner = b.op("Add", inner, times(b, rows(b, n, 2), n.input(6)))
    hidden = rows(b, n, 3) if n.has(3) else b.const(np.zeros((batch, size), np.float32), max(n.dtype(), 0))
    marks = steps(b, b.unsqueeze(n.input(1), [2]), count)
    results = []
    for step, mark in zip(steps(b, inner, count), marks, strict=True):
        hidden = b.op("Tanh", b.op("Add", step, times(b, b.op("Mul", hidden, mark), n.input(7))))
        results.append(b.op("Tanh", b.op("Gemm", hidden, n.input(8), n.input(9), transB=1)))
    return gathered(b, results), b.unsqueeze(hidden, [0])
