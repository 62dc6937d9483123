"""What DynamicRNN and DynamicGRUV2 share: checks of what is supported, states, lengths."""

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site

_FIXED = {
    "direction": "UNIDIRECTIONAL",
    "activation": "tanh",
    "cell_depth": 1,
    "num_proj": 0,
    "time_major": True,
    "keep_prob": 1.0,
    "use_peephole": False,
}


def check(n: Site) -> None:
    """Refuse what is not supported."""
    for key, only in _FIXED.items():
        if n.attr(key, only) != only:
            raise OpError(f"{n.type} {n.name!r} has {key} {n.attr(key)!r}; only {only!r} is supported")


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (np.tanh(0.5 * x) + 1.0), dtype=x.dtype)


def first_state(initial: Array | None, batch: int, hidden: int) -> Array:
    """The state before the first step."""
    if initial is None:
        return np.zeros((batch, hidden), np.float32)
    return initial.astype(np.float32).reshape(batch, hidden)


def alive(n: Site, lengths: Array | None, step: int) -> Array | None:
    """Which sequences of the batch have not ended at a step; None when all go on."""
    if lengths is None:
        return None
    if lengths.ndim != 1:
        raise OpError(f"{n.type} {n.name!r} has a seq_length of {lengths.ndim} dims; give one length per sequence")
    return np.asarray(step < lengths)[:, None]


def infer_steps(n: Site, hidden: int, outputs: int) -> list[tuple[int, Shape | None]]:
    """Every output is [steps, batch, hidden], in the type of x."""
    steps, batch = n.shape(0)[:2]
    return [(n.dtype(0), (steps, batch, hidden))] * outputs
