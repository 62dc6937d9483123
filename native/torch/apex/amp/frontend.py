"""`amp.initialize` and what goes into a checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from apex.amp._amp_state import _amp_state, maybe_print
from apex.amp._initialize import initialize as _initialize
from apex.amp.options import Properties
from apex.amp.scaler import LossScaler

_SCALER = "loss_scaler"


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    dynamic_init_scale: float = 2.0**16,
    scale_growth_factor: float = 2.0,
    scale_backoff_factor: float = 0.5,
    scale_window: int = 2000,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
    combine_grad: bool | None = None,
    combine_ddp: bool | None = None,
    ddp_replica_count: int = 4,
    user_cast_preferred: bool | None = None,
    check_combined_tensors: bool | None = None,
) -> Any:
    """Prepare models and optimizers (one or a list of each) for mixed precision and return them in the same form.

    `combine_grad` puts gradients of one dtype into one buffer; `combine_ddp` sums that over the ranks instead of
    DistributedDataParallel, in `ddp_replica_count` pieces; `check_combined_tensors` looks at every backward pass whether gradients
    still lie in their buffer; `user_cast_preferred` lets functions that the user registered win over amp's own lists.
    """
    overrides = {
        "cast_model_type": cast_model_type,
        "patch_torch_functions": patch_torch_functions,
        "keep_batchnorm_fp32": keep_batchnorm_fp32,
        "master_weights": master_weights,
        "loss_scale": loss_scale,
        "combine_grad": combine_grad,
        "combine_ddp": combine_ddp,
        "ddp_replica_count": ddp_replica_count,
        "check_combined_tensors": check_combined_tensors,
        "user_cast_preferred": user_cast_preferred,
    }
    _amp_state.verbosity = verbosity
    properties = Properties()
    if not enabled:
        _amp_state.opt_properties = properties
        return models if optimizers is None else (models, optimizers)
    _choose(properties, opt_level, overrides)
    if num_losses < 1:
        raise ValueError(f"num_losses must be at least 1, not {num_losses}")
    limits = (scale_growth_factor, scale_backoff_factor, scale_window, min_loss_scale, max_loss_scale)
    scalers = [LossScaler(properties.loss_scale, dynamic_init_scale, *limits) for _ in range(num_losses)]
    initialized = _initialize(models, optimizers, properties, cast_model_outputs)
    _amp_state.opt_properties, _amp_state.loss_scalers = properties, scalers
    return initialized


def _choose(properties: Properties, level: str, overrides: dict[str, Any]) -> None:
    """Level, overrides, and the lines that tell of both."""
    brief = properties.set_level(level)
    maybe_print(f"Selected optimization level {brief}", True)
    maybe_print("Defaults for this optimization level are:", True)
    for line in properties.describe():
        maybe_print(line, True)
    maybe_print("Processing user overrides (additional kwargs that are not None)...", True)
    properties.override(overrides)
    maybe_print("After processing overrides, optimization options are:", True)
    for line in properties.describe():
        maybe_print(line, True)


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state of each loss scaler."""
    state = OrderedDict() if destination is None else destination
    for index, scaler in enumerate(_amp_state.loss_scalers):
        state[f"{_SCALER}{index}"] = {"loss_scale": scaler.loss_scale(), "unskipped": scaler.unskipped}
    return state


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Take the state of the loss scalers over. More or fewer of them than here are told of, other entries refused."""
    scalers = _amp_state.loss_scalers
    if len(state_dict) != len(scalers):
        print(f"Warning: state_dict contains {len(state_dict)} entries, while {len(scalers)} loss_scalers are used")
    unexpected = [key for key in state_dict if not key.startswith(_SCALER) or not key.removeprefix(_SCALER).isdigit()]
    if unexpected:
        raise RuntimeError(f"Error(s) in loading state_dict. Unexpected key(s) in state_dict: {unexpected}. ")
    for key, state in state_dict.items():
        index = int(key.removeprefix(_SCALER))
        if index >= len(scalers):
            print(f"Skipping loss_scaler[{index}], since num_losses was set to {len(scalers)}")
        else:
            scalers[index].load(float(state["loss_scale"]), int(state["unskipped"]))
