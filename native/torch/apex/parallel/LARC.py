"""LARC: a learning rate for each parameter, from the norms of its weight and gradient."""

from __future__ import annotations

from typing import Any

import torch


class LARC:
    """Around any optimizer. A parameter's rate is trust_coefficient · |w| / (|g| + decay · |w|); with `clip` it is at most the
    optimizer's own, without it multiplies that."""

    def __init__(self, optimizer: Any, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8) -> None:
        self.optim = optimizer
        self.trust_coefficient, self.clip, self.eps = trust_coefficient, clip, eps

    def __getattr__(self, name: str) -> Any:
        if name == "optim":  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.optim, name)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the optimizer."""
        groups: list[dict[str, Any]] = self.optim.param_groups
        return groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optim.param_groups = value

    @property
    def state(self) -> Any:
        """That of the optimizer."""
        return self.optim.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"LARC({self.optim!r})"

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Scale the gradients, decay included, and let the optimizer step without decay."""
        decays = []
        with torch.no_grad():
            for group in self.param_groups:
                decays.append(group.get("weight_decay", 0))
                if "weight_decay" in group:
                    group["weight_decay"] = 0
                for param in group["params"]:
                    if param.grad is not None:
                        self._scale(group, param, decays[-1])
        try:
            return self.optim.step(*args, **kwargs)
        finally:
            for group, decay in zip(self.param_groups, decays, strict=True):
                if "weight_decay" in group:
                    group["weight_decay"] = decay

    def _scale(self, group: dict[str, Any], param: torch.Tensor, decay: float) -> None:
        weight, grad = param.norm(), param.grad.norm() if param.grad is not None else 0.0
        if not weight or not grad:
            return
        rate = self.trust_coefficient * weight / (grad + weight * decay + self.eps)
        if self.clip:
            rate = torch.clamp(rate / group["lr"], max=1.0)
        param.grad.add_(param, alpha=decay).mul_(rate)  # type: ignore[union-attr]
