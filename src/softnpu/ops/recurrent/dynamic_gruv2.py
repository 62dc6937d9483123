"""DynamicGRUV2: a gated recurrent unit over time-major x, with all gates as outputs.

The columns of the weights are the gates in gate_order: z update, r reset, h new.
"""

import numpy as np

from softnpu.ops.common.builder import Array, Shape, Site
from softnpu.ops.common.schema import Schema
from softnpu.ops.recurrent._dynamic_rnn import alive, check, first_state, infer_steps, sigmoid

SCHEMA = Schema(
    "DynamicGRUV2",
    ("x", "weight_input", "weight_hidden", "bias_input?", "bias_hidden?", "seq_length?", "init_h?"),
    ("y", "output_h", "update", "reset", "new", "hidden_new"),
    {
        "direction": "UNIDIRECTIONAL", "cell_depth": 1, "keep_prob": 1.0, "cell_clip": -1.0, "num_proj": 0, "time_major": True,
        "activation": "tanh", "gate_order": "zrh", "reset_after": True, "is_training": True,
    },
    note="one direction",
)  # fmt: skip


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    check(n)
    return infer_steps(n, n.shape(1)[1] // 3, 6)


def compute(n: Site, x: Array, weight_input: Array, weight_hidden: Array, *rest: Array | None) -> tuple[Array, ...]:
    check(n)
    bias_input, bias_hidden, lengths, init_h = (*rest, None, None, None, None)[:4]
    steps, batch, hidden = x.shape[0], x.shape[1], weight_input.shape[1] // 3
    positions = [str(n.attr("gate_order", "zrh")).index(letter) for letter in "zrh"]
    inner = weight_hidden.astype(np.float32)
    offset = np.zeros(3 * hidden, np.float32) if bias_hidden is None else bias_hidden.astype(np.float32)
    inputs = x.astype(np.float32) @ weight_input.astype(np.float32) + (
        0 if bias_input is None else bias_input.astype(np.float32)
    )
    h = first_state(init_h, batch, hidden)
    results = np.zeros((6, steps, batch, hidden), np.float32)
    columns = slice(positions[2] * hidden, (positions[2] + 1) * hidden)
    for step in range(steps):
        before = np.split(inputs[step], 3, axis=1)
        around = np.split(h @ inner + offset, 3, axis=1)
        z, r = (sigmoid(before[position] + around[position]) for position in positions[:2])
        side = around[positions[2]]
        if not n.attr("reset_after", True):
            side = (r * h) @ inner[:, columns] + offset[columns]
        new = np.tanh(before[positions[2]] + (r * side if n.attr("reset_after", True) else side))
        state = (1 - z) * new + z * h
        on = alive(n, lengths, step)
        h = state if on is None else np.where(on, state, h)
        results[:, step] = (state if on is None else np.where(on, state, 0), h, z, r, new, side)
    return tuple(result.astype(x.dtype) for result in results)
