"""Watching the operators of models: what a run shows of each, and who looks.

Whoever runs operators one by one shows them here; `observe/` looks, without either knowing the other. Who looks stands in
the process object (`runtime/watchers.py`), so that `acl.finalize` ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from softnpu.base.log import ERROR, log, no_line


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor as an operator met it. The array is a view that lives as long as the call; None where NumPy has no form."""

    dtype: int  # aclDataType
    format: int
    shape: tuple[int, ...]
    array: np.ndarray[Any, Any] | None
    address: int = 0


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of one operator: a node of a model, or a single operator (then `model` is empty)."""

    name: str
    type: str  # CANN's operator type
    inputs: tuple[Seen, ...]
    outputs: tuple[Seen, ...]
    origin: tuple[str, ...] = ()  # names in the source model
    model: str = ""
    model_id: int = 0
    iteration: int = 0
    device: int = 0
    stream: int = 0
    task: int = 0


class Watcher(Protocol):
    """Somebody who wants to see operators run."""

    def wants_model(self, names: frozenset[str]) -> bool:
        """Whether the nodes of a model with these names are to be shown; asked when it is loaded."""

    def wants_operators(self) -> bool:
        """Whether single operators are to be shown."""

    def meets(self, names: frozenset[str], nodes: frozenset[str]) -> None:
        """A model that was wanted is loaded; `nodes` are the names of its nodes now and in the source model."""

    def saw(self, run: NodeRun) -> None:
        """An operator has run. Called in the thread that runs it."""


def show(looking: tuple[Watcher, ...], run: NodeRun) -> None:
    """Show a run to all; one that raises is logged, what is watched must not fail for it."""
    for watcher in looking:
        try:
            watcher.saw(run)
        except Exception as error:
            text = f"{type(watcher).__name__} could not take {run.type} {run.name}: {type(error).__name__}: {error}"
            log().write(ERROR, text, "DUMP", "show", no_line("watch.py"))
