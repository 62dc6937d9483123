"""A loader's batches on the device, one ahead of the program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu import npu


def _move(value: Any) -> Any:
    """Tensors to the device, also inside tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return value.npu(non_blocking=True)  # type: ignore[attr-defined]  # torch_npu makes the method
    if isinstance(value, dict):
        return {key: _move(element) for key, element in value.items()}
    return type(value)(_move(element) for element in value) if isinstance(value, list | tuple) else value


class Prefetcher:
    """`input, target = prefetcher.next()`; both are None when the loader has no more."""

    def __init__(self, loader: Iterable[Any], stream: Any = None) -> None:
        self.loader = iter(loader)
        self.stream = npu.Stream() if stream is None else stream
        self.preload()

    def preload(self) -> None:
        """Fetch and copy the next batch."""
        batch = next(self.loader, None)
        if batch is None:
            self.next_input = self.next_target = None
            return
        self.next_input, self.next_target = batch
        with npu.stream(self.stream):
            self.next_input, self.next_target = _move(self.next_input), _move(self.next_target)

    def next(self) -> tuple[Any, Any]:
        """The batch copied before; the copy of the one after it starts."""
        npu.current_stream().wait_stream(self.stream)
        batch = self.next_input, self.next_target
        if batch[0] is not None:
            self.preload()
        return batch
