"""DynamicRNN: a long short-term memory over time-major x, with all gates as outputs.

The columns of w and b are the gates in gate_order: i input, j candidate, f forget, o output.
"""

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.recurrent._dynamic_rnn import alive, check, first_state, infer_steps, sigmoid

SCHEMA = Schema(
    "DynamicRNN",
    ("x", "w", "b", "seq_length?", "init_h?", "init_c?", "wci?", "wcf?", "wco?", "mask?"),
    ("y", "output_h", "output_c", "i", "j", "f", "o", "tanhc"),
    {
        "cell_type": "LSTM", "direction": "UNIDIRECTIONAL", "cell_depth": 1, "use_peephole": False, "keep_prob": 1.0, "cell_clip": -1.0,
        "num_proj": 0, "time_major": True, "activation": "tanh", "forget_bias": 0.0, "gate_order": "ijfo", "is_training": True,
    },
    note="one direction, no peepholes",
)  # fmt: skip


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    check(n)
    return infer_steps(n, n.shape(1)[1] // 4, 8)


def compute(n: Site, x: Array, w: Array, b: Array, *rest: Array | None) -> tuple[Array, ...]:
    check(n)
    lengths, init_h, init_c = (*rest, None, None, None)[:3]
    if any(result is not None for result in rest[3:]):
        raise OpError(f"DynamicRNN {n.name!r} has peephole weights or a mask; they are not supported")
    steps, batch, hidden = x.shape[0], x.shape[1], w.shape[1] // 4
    weights, bias, clip = w.astype(np.float32), b.astype(np.float32), float(n.attr("cell_clip", -1.0))
    positions = [str(n.attr("gate_order", "ijfo")).index(letter) for letter in "ijfo"]
    h, c = first_state(init_h, batch, hidden), first_state(init_c, batch, hidden)
    results = np.zeros((8, steps, batch, hidden), np.float32)
    inputs = x.astype(np.float32) @ weights[: x.shape[2]] + bias  # the part that needs no state, for all steps at once
    for step in range(steps):
        gates = np.split(inputs[step] + h @ weights[x.shape[2] :], 4, axis=1)
        i, j, f, o = (gates[position] for position in positions)
        i, j, f, o = sigmoid(i), np.tanh(j), sigmoid(f + float(n.attr("forget_bias", 0.0))), sigmoid(o)
        cell = f * c + i * j
        cell = np.clip(cell, -clip, clip) if clip > 0 else cell
        tanhc = np.tanh(cell)
        new = o * tanhc
        on = alive(n, lengths, step)
        h, c = (new, cell) if on is None else (np.where(on, new, h), np.where(on, cell, c))
        results[:, step] = (new if on is None else np.where(on, new, 0), h, c, i, j, f, o, tanhc)
    return tuple(result.astype(x.dtype) for result in results)
