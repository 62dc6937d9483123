"""Operators with fewer passes over memory than their composition: they write into their own temporaries and keep less for the
derivative. What looks on from outside (fake tensors, tracers, functional transforms, second derivatives) sees the composition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


@dataclass(frozen=True)
class Kind:
    """An operator: its composition, its direct form, and the direct form of its derivative.

    compose(inputs, options) -> outputs; forward(inputs, options, keep) -> outputs and what `keep` asks to save for backward;
    backward(inputs, kept, grad, wanted, options) -> gradients of the inputs. Only the first output has a derivative.
    """

    compose: Callable[..., tuple[Tensor, ...]]
    forward: Callable[..., tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]
    backward: Callable[..., tuple[Tensor | None, ...]]


def plain(*tensors: Tensor) -> bool:
    """Whether nothing looks on: no mode, transform, tracer or tensor class that wants to see aten operators, not memory."""
    for tensor in tensors:
        kind = type(tensor)
        if (kind is not Tensor and kind is not torch.nn.Parameter) or tensor.is_meta:
            return False
    return (
        not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._get_tracing_state() is None
        and forward_ad._current_level < 0
    )


def apply(kind: Kind, inputs: tuple[Tensor, ...], *options: Any) -> tuple[Tensor, ...]:
    """The outputs in the form that the moment allows."""
    if not plain(*inputs):
        first, *others = kind.compose(inputs, options)
        return first, *(output.detach() for output in others)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        outputs: tuple[Tensor, ...] = _Fused.apply(kind, options, *inputs)  # type: ignore[no-untyped-call]
        return outputs
    return kind.forward(inputs, options, False)[0]


class _Fused(torch.autograd.Function):
    """Keeps inputs and what is dear to compute again; the composition would keep every temporary."""

    @staticmethod
    def forward(ctx: Any, kind: Kind, options: tuple[Any, ...], *inputs: Tensor) -> tuple[Tensor, ...]:
        outputs, kept = kind.forward(inputs, options, True)
        ctx.kind, ctx.options, ctx.count = kind, options, len(inputs)
        ctx.save_for_backward(*inputs, *kept)
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_none: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # once: checkpointing computes them when they are asked for
        inputs, kept = saved[: ctx.count], saved[ctx.count :]
        wanted = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled() or not plain(grad, *inputs):
            grads = _composed(ctx.kind, inputs, grad, wanted, ctx.options)
        else:
            grads = ctx.kind.backward(inputs, kept, grad, wanted, ctx.options)
        return (None, None, *grads)


def _composed(
    kind: Kind, inputs: tuple[Tensor, ...], grad: Tensor, wanted: tuple[bool, ...], options: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """The derivative through the composition, which can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        first = kind.compose(inputs, options)[0]
        chosen = [tensor for tensor, want in zip(inputs, wanted, strict=True) if want]
        grads = iter(torch.autograd.grad(first, chosen, grad, create_graph=again))
    return tuple(next(grads) if want else None for want in wanted)
