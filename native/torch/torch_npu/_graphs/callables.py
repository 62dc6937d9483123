"""`make_graphed_callables`: functions and modules whose forward and backward are captured graphs.

The rules are those of torch.cuda's: arguments are tensors, shapes and `requires_grad` stay as in the samples, no hooks at the time
of the capture, no double backward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from torch_npu._graphs.capture import NPUGraph, Pool, graph, graph_pool_handle

Tensors = tuple[Tensor, ...]


@dataclass
class _Part:
    """One callable: its inputs (arguments, then parameters), and what the captures left."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    inputs: Tensors
    user_count: int
    forward: NPUGraph
    backward: NPUGraph
    outputs: Tensors = ()
    differentiable: tuple[bool, ...] = ()
    spec: TreeSpec | None = None
    grad_outputs: tuple[Tensor | None, ...] = ()
    grad_inputs: tuple[Tensor | None, ...] = ()

    def wanted(self) -> Tensors:
        return tuple(tensor for tensor in self.inputs if tensor.requires_grad)


def _part(function: Callable[..., Any], args: tuple[Any, ...]) -> _Part:
    flat = tuple(tree_leaves(args))
    if not all(isinstance(leaf, Tensor) for leaf in flat):
        raise AssertionError("sample_args for each callable must contain only Tensors. Other types are not allowed.")
    parameters: Tensors = ()
    if isinstance(function, nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise AssertionError(
                "Modules must not have hooks when they are passed; registering them afterwards is allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise AssertionError("All buffers must have requires_grad=False; only parameters may be trainable.")
        parameters = tuple(function.parameters())
    return _Part(function, args, flat + parameters, len(flat), NPUGraph(), NPUGraph())


def _gradients(part: _Part, outputs: Tensors, grads: Tensors, allow_unused: bool) -> tuple[Tensor | None, ...]:
    differentiable = tuple(output for output in outputs if output.requires_grad)
    if not differentiable or not part.wanted():
        return ()
    return torch.autograd.grad(differentiable, part.wanted(), grads, allow_unused=allow_unused)


def _warm_up(part: _Part, times: int, allow_unused: bool) -> None:
    for _ in range(times):
        outputs = tuple(tree_leaves(part.function(*part.args)))
        grads = tuple(torch.zeros_like(output) for output in outputs if output.requires_grad)
        _gradients(part, outputs, grads, allow_unused)


def _capture_forward(part: _Part, pool: Pool) -> None:
    with graph(part.forward, pool=pool):
        result = part.function(*part.args)
    leaves, part.spec = tree_flatten(result)
    part.outputs = tuple(leaves)
    part.differentiable = tuple(leaf.requires_grad for leaf in leaves)


def _capture_backward(part: _Part, pool: Pool, allow_unused: bool) -> None:
    part.grad_outputs = tuple(torch.zeros_like(output) if output.requires_grad else None for output in part.outputs)
    grads = tuple(grad_output for grad_output in part.grad_outputs if grad_output is not None)
    with graph(part.backward, pool=pool):
        gradients = iter(_gradients(part, part.outputs, grads, allow_unused))
    part.grad_inputs = tuple(next(gradients, None) if tensor.requires_grad else None for tensor in part.inputs)
    part.outputs = tuple(output.detach() for output in part.outputs)  # the captured history has done its work


def _as_function(part: _Part) -> Callable[..., Any]:
    class Graphed(torch.autograd.Function):
        """The two graphs as one node of autograd's."""

        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Tensors:
            for index in range(part.user_count):
                if part.inputs[index].data_ptr() != inputs[index].data_ptr():
                    part.inputs[index].copy_(inputs[index])
            part.forward.replay()
            outputs = tuple(output.detach() for output in part.outputs)
            ctx.mark_non_differentiable(
                *(out for out, flows in zip(outputs, part.differentiable, strict=True) if not flows)
            )
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            for target, grad in zip(part.grad_outputs, grads, strict=True):
                if target is not None and target.data_ptr() != grad.data_ptr():
                    target.copy_(grad)
            part.backward.replay()
            return tuple(None if grad_input is None else grad_input.detach() for grad_input in part.grad_inputs)

    def run(*args: Any) -> Any:
        parameters = part.inputs[part.user_count :]
        outputs = Graphed.apply(*tree_leaves(args), *parameters)
        assert part.spec is not None, "the forward pass was captured"
        return tree_unflatten(list(outputs), part.spec)

    return run


def _graphed(part: _Part) -> Any:
    """The callable with its graphs in; a module keeps its own forward for the other training mode."""
    run = _as_function(part)
    if not isinstance(part.function, nn.Module):
        return run
    module, training, original = part.function, part.function.training, part.function.forward
    module.forward = lambda *args: run(*args) if module.training == training else original(*args)
    return module


def make(callables: Any, sample_args: Any, warm_ups: int, allow_unused: bool, pool: Pool | None) -> Any:
    """See `torch.npu.make_graphed_callables`."""
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    single = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if single else (callables, sample_args)
    parts = [_part(function, args) for function, args in zip(functions, samples, strict=True)]
    shared = graph_pool_handle() if pool is None else pool
    for part in parts:
        _warm_up(part, warm_ups, allow_unused)
    for part in parts:
        _capture_forward(part, shared)
    for part in reversed(parts):
        _capture_backward(part, shared, allow_unused)
    graphed = tuple(_graphed(part) for part in parts)
    return graphed[0] if single else graphed
