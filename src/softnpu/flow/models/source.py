"""A model file of a graph, before the compiler is asked to look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelSource:
    """A GraphProcessPoint in a node. `inputs` and `outputs` give the model's index for each of the node's, where they differ."""

    framework: int
    path: str
    name: str = ""
    input_num: int | None = None
    output_num: int | None = None
    load_params: Mapping[str, str] = field(default_factory=dict)
    config_path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
