"""The fused optimizers against the plain for-loop form of torch.optim, both on npu, 300 small parameters, in one run.

With one thread: the for-loop's kernels are too small for more, and threads of a busy machine wait for each other in the large ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_npu.optim as fused
from _tools import Result, interleaved, loop

COUNT, SHAPES = 300, ((32, 16), (32,), (16, 8, 3, 3))
STEPS, ROUNDS, WISH = 3, 7, 1.5
PLAIN = {"foreach": False, "fused": False}

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]

PAIRS: dict[str, tuple[Make, Make]] = {
    "Adam": (fused.NpuFusedAdam, lambda ps: torch.optim.Adam(ps, **PLAIN)),
    "AdamW": (fused.NpuFusedAdamW, lambda ps: torch.optim.AdamW(ps, **PLAIN)),
    "SGD": (
        lambda ps: fused.NpuFusedSGD(ps, 0.01, momentum=0.9),
        lambda ps: torch.optim.SGD(ps, 0.01, momentum=0.9, **PLAIN),
    ),
    "Adadelta": (fused.NpuFusedAdadelta, lambda ps: torch.optim.Adadelta(ps, foreach=False)),
    "RMSprop": (fused.NpuFusedRMSprop, lambda ps: torch.optim.RMSprop(ps, foreach=False)),
}
AGAINST_ADAM: dict[str, Make] = {  # torch has no plain form of these
    "AdamP": fused.NpuFusedAdamP,
    "Lamb": fused.NpuFusedLamb,
    "BertAdam": lambda ps: fused.NpuFusedBertAdam(ps, 1e-3),
    "RMSpropTF": fused.NpuFusedRMSpropTF,
}


def _params() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(SHAPES[i % len(SHAPES)]).npu()) for i in range(COUNT)]
    for param in params:
        param.grad = torch.randn_like(param)
    return params


def _compare(name: str, ours: Make, theirs: Make, peer_name: str) -> Result:
    mine, peer = ours(_params()), theirs(_params())
    mine.step()
    peer.step()
    a, b = interleaved(loop(mine.step, STEPS), loop(peer.step, STEPS), rounds=ROUNDS)
    ratio = b / a
    left, right = (f"{seconds / STEPS * 1e3:.2f} ms" for seconds in (a, b))
    return Result(
        f"NpuFused{name} step, {COUNT} parameters",
        left,
        f"{peer_name} {right}",
        f"{ratio:.2f}",
        f"≥ {WISH}",
        ratio >= WISH,
    )


def results() -> list[Result]:
    """The rows of the table."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _rows()
    finally:
        torch.set_num_threads(threads)


def _rows() -> list[Result]:
    rows = [_compare(name, ours, theirs, f"{name} for-loop") for name, (ours, theirs) in PAIRS.items()]
    return rows + [_compare(name, ours, PAIRS["Adam"][1], "Adam for-loop") for name, ours in AGAINST_ADAM.items()]
