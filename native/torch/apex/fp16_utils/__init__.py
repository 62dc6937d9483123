"""apex.fp16_utils: models in half precision by hand, which `apex.amp` does by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from apex.fp16_utils.fp16_optimizer import FP16_Optimizer
from apex.fp16_utils.loss_scaler import DynamicLossScaler, LossScaler

__all__ = [
    "BN_convert_float",
    "DynamicLossScaler",
    "FP16Model",
    "FP16_Optimizer",
    "LossScaler",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]

_NORMS = nn.modules.batchnorm._BatchNorm
clip_grad_norm = torch.nn.utils.clip_grad_norm_


class tofp16(nn.Module):
    """A layer that casts to half precision."""

    def forward(self, input: Tensor) -> Tensor:
        return input.half()


def BN_convert_float(module: nn.Module) -> nn.Module:
    """Batch norms with weights go back to float32: halves lose the small changes of their statistics."""
    for part in module.modules():
        if isinstance(part, _NORMS) and part.affine:
            part.float()
    return module


def network_to_half(network: nn.Module) -> nn.Sequential:
    """The model in half precision except for its batch norms, with a cast before it."""
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Cast the floating parameters and buffers of one module, not of its children."""
    for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
            if tensor.grad is not None:
                tensor.grad = tensor.grad.to(dtype)


def convert_network(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Cast a model except for its batch norms with weights."""
    for module in network.modules():
        if not (isinstance(module, _NORMS) and module.affine):
            convert_module(module, dtype)
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return network


class FP16Model(nn.Module):
    """A model in half precision except for its batch norms; inputs are cast."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.float16)

    def forward(self, *inputs: Tensor) -> Tensor:
        output: Tensor = self.network(*(tensor.half() for tensor in inputs))
        return output


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that train and their float32 masters; one flat master for all of them on request."""
    params = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not flat_master:
        return params, [nn.Parameter(param.detach().float().clone()) for param in params]
    if len({param.dtype for param in params}) > 1:
        raise ValueError(
            "prep_param_lists: flat_master=True needs parameters of one dtype; batch norms kept in float32 are not"
        )
    return params, [nn.Parameter(torch.cat([param.detach().float().flatten() for param in params]))]


def model_grads_to_master_grads(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Hand the gradients of a backward pass to the masters."""
    if flat_master:
        master_params[0].grad = torch.cat(
            [
                (torch.zeros_like(model_param) if model_param.grad is None else model_param.grad)
                .detach()
                .float()
                .flatten()
                for model_param in model_params
            ]
        )
        return
    for model, master in zip(model_params, master_params, strict=True):
        master.grad = None if model.grad is None else model.grad.detach().float()


@torch.no_grad()
def master_params_to_model_params(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Hand the values of the masters to the model."""
    if flat_master:
        parts = master_params[0].split([model_param.numel() for model_param in model_params])
        master_params = [part.view(param.shape) for part, param in zip(parts, model_params, strict=True)]
    for model, master in zip(model_params, master_params, strict=True):
        model.copy_(master)


def to_python_float(value: Tensor) -> float:
    """The number in a tensor."""
    return value.item()
