"""Datasets: the ordered buffers of a model's inputs or outputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from softnpu.base.errors import NpuError, codes


@dataclass
class Dataset:
    """Handles of data buffers in input order, and a description per index where one was attached."""

    buffers: list[int] = field(default_factory=list)
    descs: dict[int, int] = field(default_factory=dict)
    gears: dict[int, int] = field(default_factory=dict)  # model id → gear that was set for its next runs

    def check(self, index: int) -> None:
        """Raise unless there is a buffer of this index."""
        if index >= len(self.buffers):
            raise NpuError(
                codes.INVALID_PARAM,
                f"index {index} is outside a dataset of {len(self.buffers)} buffers",
                "count from 0; add buffers with acl.mdl.add_dataset_buffer",
            )
