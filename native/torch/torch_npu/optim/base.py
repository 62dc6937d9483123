"""What the fused optimizers share: buffers instead of parameters, steps over whole buffers, and the book-keeping around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error
from torch_npu.optim.bucket import Bucket, Run
from torch_npu.utils.combine_tensors import by_kind, clip_flat_norm_

Options = dict[str, Any]


def check_range(name: str, value: float, low: float = 0.0, high: float = float("inf")) -> None:
    """torch.optim's check of a number: `low` is allowed, `high` is not."""
    if not low <= value < high:
        raise ValueError(f"Invalid {name} value: {value}" + pta_error(ErrCode.VALUE))


def check_betas(betas: tuple[float, float]) -> None:
    """Both decay rates are shares."""
    for index, beta in enumerate(betas):
        check_range(f"beta parameter at index {index}", beta, high=1.0)


class NpuFusedOptimizerBase(torch.optim.Optimizer):
    """A subclass says which states it keeps (`_state_names`) and how a run of parameters is updated (`_update`).

    At the first step the parameters of a group move into one buffer per dtype, their gradients into another; from then on the
    backward pass adds into that buffer, which is why gradients are zeroed and not dropped. A gradient that a program replaces is
    copied in, one that is None leaves its parameter as it is: the result is always that of the plain optimizer.
    """

    is_fused_optimizer = True

    def __init__(self, params: Iterable[Any], defaults: Options) -> None:
        super().__init__(params, defaults)
        self._buckets: list[list[Bucket]] = []
        self._members: list[list[Tensor]] = []

    def _state_names(self, group: Options) -> Mapping[str, float]:
        """Names of the states of a group and what they begin with."""
        raise NotImplementedError(f"{type(self).__name__} needs _state_names")

    def _update(self, group: Options, run: Run) -> None:
        """One step of a run."""
        raise NotImplementedError(f"{type(self).__name__} needs _update")

    def _before_updates(self) -> None:
        """What needs the gradients of all groups, such as a norm over them."""

    def _combine(self) -> list[list[Bucket]]:
        """The buffers of each group, made anew where its parameters are no longer those."""
        for index, group in enumerate(self.param_groups):
            params, names = group["params"], self._state_names(group)
            if index == len(self._buckets):
                self._buckets.append([])
                self._members.append([])
            known = self._members[index]
            same = len(known) == len(params) and all(a is b for a, b in zip(known, params, strict=True))
            if not same or not all(bucket.in_place() for bucket in self._buckets[index]):
                self._buckets[index] = [Bucket(kind, names, self.state) for kind in by_kind(params)]
                self._members[index] = list(params)
            for bucket in self._buckets[index]:
                if bucket.names != names:
                    bucket.adopt_state(names, self.state)
        del self._buckets[len(self.param_groups) :], self._members[len(self.param_groups) :]
        return self._buckets

    def _gathered(self) -> list[Bucket]:
        buckets = [bucket for group in self._combine() for bucket in group]
        for bucket in buckets:
            bucket.grads.gather()
        return buckets

    def get_combined_params(self) -> list[Tensor]:
        """The buffers of the parameters, one per dtype of each group."""
        return [bucket.flat for bucket in self._gathered()]

    def get_combined_grads(self) -> list[Tensor]:
        """The buffers of the gradients, in the order of `get_combined_params`; zero where a parameter has none."""
        return [bucket.grads.flat for bucket in self._gathered()]

    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """`torch.nn.utils.clip_grad_norm_` for all parameters of this optimizer; the norm before clipping."""
        return clip_flat_norm_(self.get_combined_grads(), max_norm, norm_type)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        buckets = self._combine()
        self._before_updates()
        for group, kinds in zip(self.param_groups, buckets, strict=True):
            for bucket in kinds:
                for run in bucket.runs(self.state):
                    self._update(group, run)
        return loss

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Zero the gradients. They stay: dropping them would take them out of the buffer."""
        if set_to_none:
            raise ValueError(
                f"{type(self).__name__}.zero_grad: set_to_none=True is not supported, the gradients are parts of one buffer; "
                "call zero_grad(set_to_none=False)" + pta_error(ErrCode.NOT_SUPPORT)
            )
        if not self._buckets:
            super().zero_grad(set_to_none=False)
            return
        for kinds in self._combine():
            for bucket in kinds:
                bucket.grads.zero()

    def state_dict(self) -> Options:
        """torch's form. Counts of steps are shared inside; another optimizer would count one up once per parameter."""
        saved = super().state_dict()
        for index, kept in saved["state"].items():
            if isinstance(kept.get("step"), Tensor):
                saved["state"][index] = {**kept, "step": kept["step"].clone()}
        return saved

    def load_state_dict(self, state_dict: Options) -> None:
        """Take a state over: one of this class or of the plain optimizer."""
        super().load_state_dict(state_dict)
        self._combine_states()

    def _combine_states(self) -> None:
        for group, kinds in zip(self.param_groups, self._buckets, strict=False):
            for bucket in kinds:
                bucket.adopt_state(self._state_names(group), self.state)

    def __getstate__(self) -> Options:
        """Buffers do not travel: the copy makes its own at its first step."""
        kept = super().__getstate__()
        return {**kept, "_buckets": [], "_members": []}
