"""`flex_attention` on npu: torch names the devices that may call it one by one, and does not name ours.

Called plainly it is torch's own composition, with derivatives. Compiled it is Inductor's C++ template for the CPU, which has no
derivative: as on the CPU, programs that train call it outside of `torch.compile`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import Tensor


def accept(module: ModuleType) -> None:
    """`torch.nn.attention.flex_attention`."""
    validate, options_of = module._validate_device, module._apply_kernel_options

    def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
        if query.device.type != "npu":
            validate(query, key, value)

    def _apply_kernel_options(query: Tensor, key: Tensor, value: Tensor, return_lse: bool, *more: Any) -> Any:
        options = options_of(query, key, value, return_lse, *more)
        wanted = query.requires_grad or key.requires_grad or value.requires_grad
        if query.device.type == "npu" and not return_lse and not wanted:
            asked = more[1] if len(more) > 1 else None
            options["OUTPUT_LOGSUMEXP"] = asked is not None and asked.lse
        return options

    module._validate_device, module._apply_kernel_options = _validate_device, _apply_kernel_options  # type: ignore[attr-defined]


def lower(module: ModuleType) -> None:
    """`torch._inductor.kernel.flex.flex_attention`: the template of the CPU's."""
    import torch
    from torch._inductor.kernel.flex.flex_cpu import lower_cpu
    from torch._inductor.lowering import register_lowering

    original = module.flex_attention

    def flex_attention(
        query: Any, key: Any, value: Any, subgraph: Any, block_mask: Any, scale: Any, options: Any, *more: Any
    ) -> Any:
        if query.get_device().type != "npu":
            return original(query, key, value, subgraph, block_mask, scale, options, *more)
        if options["OUTPUT_LOGSUMEXP"] or options.get("OUTPUT_MAX"):
            raise NotImplementedError(
                "flex_attention inside torch.compile has neither derivatives nor return_lse on npu: call it outside of the "
                "compiled function, or use torch.no_grad() and inputs that need no gradient"
            )
        return lower_cpu(query, key, value, subgraph, block_mask, scale, options, *more)

    register_lowering(torch.ops.higher_order.flex_attention, type_promotion_kind=None)(flex_attention)
