"""Graph capture: the names around it. What looks at tensors of a captured graph, handlers for updates, and graph mode of 1.8.1."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from torch_npu._errors import ErrCode, graph_error
from torch_npu._graphs.capture import current_graph
from torch_npu._graphs.recording import HostCall
from torch_npu.npu.graphs import make_graphed_callables

__all__ = [
    "disable_graph_mode",
    "enable_graph_mode",
    "is_graph_mode",
    "launch_graph",
    "make_replay_graph",
    "print_npugraph_tensor",
    "register_npu_graph_handler",
    "save_npugraph_tensor",
]

_handlers: dict[str, Any] = {}


def register_npu_graph_handler(op_names: str | Iterable[str]) -> Callable[[Any], Any]:
    """A decorator that names who prepares host arguments of operators for `NPUGraph.update`. Handlers are kept and can be asked
    for; an update here reaches every argument by its name, so none is called."""
    names = [op_names] if isinstance(op_names, str) else list(op_names)

    def keep(handler: Any) -> Any:
        _handlers.update(dict.fromkeys(names, handler))
        return handler

    return keep


def _now_and_at_replays(function: Callable[[torch.Tensor], None], tensor: torch.Tensor) -> None:
    """While a graph is captured values are not there yet: what looks at them becomes a part of the graph."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "npu":
        where = tensor.device if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise RuntimeError(f"a tensor on npu is expected but got {where}" + graph_error(ErrCode.PARAM))
    owner = current_graph()
    if owner is None:
        function(tensor)
    else:
        owner.add(HostCall(function, tensor.detach()))


def print_npugraph_tensor(tensor: torch.Tensor, tensor_name: str = "") -> None:
    """Print a tensor at every replay of the graph that is captured; outside of a capture now."""
    head = f"{tensor_name}: " if tensor_name else ""
    _now_and_at_replays(lambda values: print(f"{head}{values}"), tensor)


def save_npugraph_tensor(tensor: torch.Tensor, save_path: str) -> None:
    """Save a tensor at every replay of the graph that is captured: name.pt, then name_1.pt, name_2.pt …; outside of a capture now."""
    root, ending = os.path.splitext(save_path)
    count = 0

    def save(values: torch.Tensor) -> None:
        nonlocal count
        torch.save(values.cpu(), save_path if count == 0 else f"{root}_{count}{ending}")
        count += 1

    _now_and_at_replays(save, tensor)


# ---- graph mode of 1.8.1: operators were collected and compiled together ----------------------------------------------


@dataclass
class _Mode(threading.local):
    on: bool = False
    verbose: bool = False


_mode = _Mode()


def enable_graph_mode(verbose: bool = False) -> None:
    """Collect operators until `launch_graph`. Here each still runs when it is called: results are the same, sooner."""
    _mode.on, _mode.verbose = True, verbose


def disable_graph_mode() -> None:
    """Leave graph mode."""
    _mode.on = False


def is_graph_mode() -> bool:
    """Whether this thread is in graph mode."""
    return _mode.on


def launch_graph() -> None:
    """Run what was collected: it has run already."""
    if not _mode.on:
        raise RuntimeError(
            "Npu run mode must be graph mode: call enable_graph_mode first" + graph_error(ErrCode.INTERNAL)
        )
    if _mode.verbose:
        print("launch_graph: all operators have run when they were called")


def make_replay_graph(callables: Any, sample_args: Any, **options: Any) -> Any:
    """The older name of `make_graphed_callables`."""
    return make_graphed_callables(callables, sample_args, **options)
