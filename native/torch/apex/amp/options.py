"""The optimization levels, what an option may be, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from apex.amp._amp_state import warn_or_err

LEVELS: dict[str, tuple[str, dict[str, Any]]] = {
    "O3": (
        "O3:  Pure FP16 training.",
        {"cast_model_type": torch.float16, "keep_batchnorm_fp32": False, "master_weights": False, "loss_scale": 1.0},
    ),
    "O2": (
        "O2:  FP16 training with FP32 batchnorm and FP32 master weights.\n",
        {
            "cast_model_type": torch.float16,
            "keep_batchnorm_fp32": True,
            "master_weights": True,
            "loss_scale": "dynamic",
        },
    ),
    "O1": (
        "O1:  Insert automatic casts around Pytorch functions and Tensor methods.\n",
        {"cast_model_type": None, "patch_torch_functions": True, "loss_scale": "dynamic"},
    ),
    "O0": (
        "O0:  Pure FP32 training.\n",
        {"cast_model_type": torch.float32, "master_weights": False, "loss_scale": 1.0},
    ),
}
_FLAGS = ("combine_grad", "combine_ddp", "check_combined_tensors", "user_cast_preferred")


class Properties:
    """The options in force. Setting one checks it against the level."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {
            "enabled": False,
            "opt_level": None,
            "cast_model_type": None,
            "patch_torch_functions": False,
            "keep_batchnorm_fp32": None,
            "master_weights": None,
            "loss_scale": 1.0,
            "combine_grad": None,
            "combine_ddp": None,
            "ddp_replica_count": 4,
            "check_combined_tensors": None,
            "user_cast_preferred": None,
        }

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("options", {})
        if name in options:
            return options[name]
        raise AttributeError(f"amp has no option {name!r}; there are {sorted(options)}")

    def set_level(self, level: str) -> str:
        """Take the defaults of a level; the sentence about it."""
        if level not in LEVELS:
            raise RuntimeError(
                f"Unexpected optimization level {level}. Options are 'O0', 'O1', 'O2', 'O3'. "
                "The first character is the letter O, not the number zero."
            )
        brief, defaults = LEVELS[level]
        self.options.update(enabled=True, opt_level=level, **defaults)
        return brief

    def override(self, overrides: dict[str, Any]) -> None:
        """Take what the user asked for (None: the level's default) and check the whole."""
        for name, value in overrides.items():
            if value is not None:
                self.options[name] = _CHECKS.get(name, _as_it_is)(self, value)
        for name in _FLAGS:
            if not isinstance(self.options[name], bool | None):
                raise TypeError(f"{name} must be True, False or None, not {self.options[name]!r}")
        for name in ("combine_grad", "check_combined_tensors"):
            if self.options[name] and self.opt_level not in ("O1", "O2"):
                warn_or_err(f"{name}=True works with opt_level O1 and O2 only, opt_level was {self.opt_level}")
        if self.combine_ddp and not self.combine_grad:
            warn_or_err("combine_ddp=True requires combine_grad=True: it sums the combined gradients over the ranks")
        if self.user_cast_preferred and self.opt_level != "O1":
            warn_or_err(f"user_cast_preferred=True works with opt_level O1 only, opt_level was {self.opt_level}")

    def describe(self) -> list[str]:
        """The options as lines."""
        return [f"{name:22} : {value}" for name, value in self.options.items()]


def _as_it_is(_properties: Properties, value: Any) -> Any:
    return value


def _cast_model_type(properties: Properties, value: Any) -> Any:
    if value is not False and not isinstance(value, torch.dtype):
        raise TypeError(f"cast_model_type must be a torch dtype, False or None, not {value!r}")
    if properties.opt_level == "O1" and value not in (False, torch.float32):
        warn_or_err(
            "O1 inserts casts around Torch functions rather than model weights, so with O1 the model weights themselves "
            "should remain FP32. To cast the model to another type, use opt_level='O2' or 'O3'. "
            f"cast_model_type was {value}"
        )
    return None if value is False or properties.opt_level == "O1" else value


def _patch_torch_functions(properties: Properties, value: Any) -> bool:
    if properties.opt_level != "O1" and value:
        warn_or_err("Currently, patch_torch_functions=True should only be set by selecting opt_level='O1'.")
    return bool(value)


def _keep_batchnorm_fp32(properties: Properties, value: Any) -> bool:
    if properties.opt_level == "O1":
        warn_or_err(
            "With opt_level O1, batchnorm functions are automatically patched to run in FP32, so keep_batchnorm_fp32 should "
            f"be None. keep_batchnorm_fp32 was {value}"
        )
    words = {"True": True, "False": False}
    choice = words.get(value, value) if isinstance(value, str) else value
    if not isinstance(choice, bool):
        raise ValueError(
            f"keep_batchnorm_fp32 must be a boolean, the string 'True' or 'False', or None, found keep_batchnorm_fp32={value!r}"
        )
    return choice


def _master_weights(properties: Properties, value: Any) -> bool:
    if properties.opt_level == "O1":
        warn_or_err(
            "It doesn't make sense to use master_weights with O1. With O1, your model weights themselves should be FP32."
        )
    return bool(value)


def _loss_scale(_properties: Properties, value: Any) -> float | str:
    if value in ("dynamic", -1):  # -1 is the porting guide's word for it: an option of its script has numbers only
        return "dynamic"
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"loss_scale must be a positive number or 'dynamic', not {value!r}")
    return number


def _replicas(_properties: Properties, value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"ddp_replica_count must be a positive whole number, not {value!r}")
    return value


_CHECKS: dict[str, Callable[[Properties, Any], Any]] = {
    "cast_model_type": _cast_model_type,
    "patch_torch_functions": _patch_torch_functions,
    "keep_batchnorm_fp32": _keep_batchnorm_fp32,
    "master_weights": _master_weights,
    "loss_scale": _loss_scale,
    "ddp_replica_count": _replicas,
}
