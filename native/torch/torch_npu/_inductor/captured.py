"""The backends "npugraphs" and "npugraph_ex" of `torch.compile`: the traced graph runs once per shape, is captured, and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_npu._graphs.capture import NPUGraph, graph


def compile_graph(
    module: torch.fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Forward and backward as captured graphs. The options tune the device's own optimiser, which is not there; they are
    accepted and change nothing."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    del options

    def capture(part: torch.fx.GraphModule, _samples: list[Any]) -> Any:
        return make_boxed_func(_Captured(part))

    return aot_autograd(fw_compiler=capture, bw_compiler=capture)(module, inputs)


class _Captured:
    """A function of npu tensors that is captured at its first call; where it cannot be captured it simply runs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._graph: NPUGraph | None = None
        self._inputs: list[Any] = []
        self._outputs: Any = None
        self._plain = False

    def __call__(self, *args: Any) -> Any:
        if self._plain or not self._fits(args):
            return self._function(*args)
        if self._graph is None:
            return self._capture(args)
        for mine, given in zip(self._inputs, args, strict=True):
            if isinstance(mine, Tensor) and mine.data_ptr() != given.data_ptr():
                mine.copy_(given)
        self._graph.replay()
        return self._results()

    def _fits(self, args: tuple[Any, ...]) -> bool:
        """Whether the call is like the captured one: replays know one shape and one set of numbers."""
        if not all(isinstance(one, Tensor | int | float) for one in args):
            return False
        if any(isinstance(one, Tensor) and one.device.type != "npu" for one in args):
            return False
        return self._graph is None or all(map(_alike, self._inputs, args))

    def _capture(self, args: tuple[Any, ...]) -> Any:
        if _writes(self._function):
            self._plain = True  # a replay would write into our copies of the inputs, not into the caller's
            return self._function(*args)
        result = self._function(*args)
        self._inputs = [one.detach().clone() if isinstance(one, Tensor) else one for one in args]
        captured = NPUGraph()
        try:
            with torch.no_grad(), graph(captured):
                self._outputs = self._function(*self._inputs)
        except RuntimeError as error:
            if "stream is capturing" not in str(error):
                raise
            self._plain = True
            return result
        self._graph = captured
        return result

    def _results(self) -> Any:
        """Copies: the next replay overwrites the captured memory while the caller may still hold this one's results."""
        return [one.clone() if isinstance(one, Tensor) else one for one in self._outputs]


def _alike(mine: Any, given: Any) -> bool:
    if not isinstance(mine, Tensor):
        return bool(mine == given)
    return isinstance(given, Tensor) and (mine.shape, mine.stride(), mine.dtype, mine.device) == (
        given.shape,
        given.stride(),
        given.dtype,
        given.device,
    )


def _writes(function: Any) -> bool:
    """Whether a traced graph changes its inputs (the copies that functionalization puts at its end)."""
    return any(
        node.op == "call_function" and node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"
        for node in function.graph.nodes
    )
