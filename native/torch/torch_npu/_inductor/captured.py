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
        for kept, argument in zip(self._inputs, args, strict=True):
            if isinstance(kept, Tensor) and kept.data_ptr() != argument.data_ptr():
                kept.copy_(argument)
        self._graph.replay()
        return self._results()

    def _fits(self, args: tuple[Any, ...]) -> bool:
        """Whether the call is like the captured one: replays know one shape and one set of numbers."""
        if not all(isinstance(argument, Tensor | int | float) for argument in args):
            return False
        if any(isinstance(argument, Tensor) and argument.device.type != "npu" for argument in args):
            return False
        return self._graph is None or all(map(_alike, self._inputs, args))

    def _capture(self, args: tuple[Any, ...]) -> Any:
        if _writes(self._function):
            self._plain = True  # a replay would write into our copies of the inputs, not into the caller's
            return self._function(*args)
        result = self._function(*args)
        self._inputs = [argument.detach().clone() if isinstance(argument, Tensor) else argument for argument in args]
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
        return [output.clone() if isinstance(output, Tensor) else output for output in self._outputs]


def _alike(kept: Any, argument: Any) -> bool:
    if not isinstance(kept, Tensor):
        return bool(kept == argument)
    return isinstance(argument, Tensor) and (kept.shape, kept.stride(), kept.dtype, kept.device) == (
        argument.shape,
        argument.stride(),
        argument.dtype,
        argument.device,
    )


def _writes(function: Any) -> bool:
    """Whether a traced graph changes its inputs (the copies that functionalization puts at its end)."""
    return any(
        node.op == "call_function" and node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"
        for node in function.graph.nodes
    )
