"""What a worker process is told beside what all workers are."""

from __future__ import annotations

from dataclasses import dataclass

from softnpu.flow.engines.spec import WorkerSpec


@dataclass(frozen=True)
class ProcessSpec(WorkerSpec):
    """Its pipes come as descriptors, in the order of `peers`."""

    epoch: int  # its life, as records say it
    epochs: dict[int, int]  # of all processes
    peers: list[int]
    arena: int
    fatal: dict[int, dict[int, int]]  # per seat: function and transaction during which its former life ended
