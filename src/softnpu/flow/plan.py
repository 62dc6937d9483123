"""A graph as the engines take it: plain data, checked, without a word of the face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DEFAULT_DEPTH = 128
INPUT = -1  # the node number of a port that is an input of the graph


@dataclass(frozen=True, order=True)
class Port:
    """An input or output of a node; node -1 is the application."""

    node: int
    index: int


@dataclass(frozen=True)
class Device:
    """A place of the deployment file, `cluster:server:device:numa`; device -1 is the host."""

    cluster: int = 0
    server: int = 0
    device: int = 0
    numa: int = 0


@dataclass(frozen=True)
class CountRule:
    """CountBatch on one input."""

    batch_size: int
    slide_stride: int = 0
    timeout: int = 0
    padding: bool = False


@dataclass(frozen=True)
class TimeRule:
    """TimeBatch on one input."""

    time_window: int
    batch_dim: int = -1
    drop_remainder: bool = False


@dataclass(frozen=True)
class AlignRule:
    """Alignment of inputs by transaction; `cache` 0 is off."""

    cache: int = 0
    timeout: int = -1
    dropout: bool = False


@dataclass(frozen=True)
class Function:
    """One function of a node: which of the node's inputs it waits for and which outputs it may write."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stream: bool = False


# The loaders of `bodies/`, one for each kind of node. Names, not functions: a worker imports only what it runs.
FUNCTION_LOADER = "softnpu.flow.bodies.function:load"
UDF_LOADER = "softnpu.flow.bodies.udf:load"
MODEL_LOADER = "softnpu.flow.bodies.model:load"
TORCH_LOADER = "softnpu.flow.bodies.torch_module:load"


@dataclass
class BodySpec:
    """How a worker makes the node's body: a loader `module:function` of ours, and plain data for it."""

    loader: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Node:
    """One node and everything that decides how it is run."""

    name: str
    input_num: int
    output_num: int
    functions: tuple[Function, ...]
    body: BodySpec
    alias: str = ""
    batches: dict[int, CountRule | TimeRule] = field(default_factory=dict)
    depth: int = DEFAULT_DEPTH
    overwrite: bool = False
    balance: str = ""  # "", "scatter" or "gather"
    resources: dict[str, int] = field(default_factory=dict)
    visible_device: bool = False
    on_device: bool = False  # an npu_model: nodes of one device share a process, tensors stay where they are
    instances: tuple[Device, ...] = (Device(),)


@dataclass
class Plan:
    """The whole graph. `edges` go from an output (or graph input) to inputs; `outputs` are what the application fetches."""

    name: str
    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: dict[Port, tuple[Port, ...]]
    outputs: tuple[Port, ...]
    align: AlignRule = AlignRule()
    catch: bool = False
    n_mapping: bool = False
    options: dict[str, str] = field(default_factory=dict)

    def keeps_user_ids(self) -> bool:
        """Whether a transaction id chosen by the program is honoured."""
        return (
            self.n_mapping
            or self.catch
            or any(node.batches or any(function.stream for function in node.functions) for node in self.nodes)
        )

    def consumers(self, port: Port) -> tuple[Port, ...]:
        """Inputs that an output feeds."""
        return self.edges.get(port, ())


Loader = Callable[[dict[str, Any]], Any]
