"""The buffers of one dtype in one parameter group, and the stretches of them that a step works on."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import eq
from typing import Any

import torch
from torch import Tensor

from torch_npu.utils.combine_tensors import GradBuffer, npu_combine_tensors, views_of

State = MutableMapping[Tensor, dict[str, Any]]
_STEP = "step"


@dataclass
class Run:
    """Parameters next to each other that all have a gradient and have made as many steps."""

    param: Tensor
    grad: Tensor
    state: dict[str, Tensor]
    shapes: list[torch.Size]
    clock: Tensor  # on the host, shared with the states of its parameters
    kept: dict[str, Any] = field(default_factory=dict)  # what an optimizer derives from the shapes

    @property
    def step(self) -> int:
        """Number of this update, from 1 on."""
        return int(self.clock)

    @cached_property
    def lengths(self) -> Tensor:
        """Elements of each parameter."""
        return torch.tensor([shape.numel() for shape in self.shapes], device=self.param.device)

    def norms(self, flat: Tensor) -> Tensor:
        """The 2-norm of each parameter's part of a buffer."""
        return torch.stack(torch._foreach_norm(flat.split([shape.numel() for shape in self.shapes])))

    def spread(self, values: Tensor) -> Tensor:
        """One value per parameter, repeated over its elements."""
        return values.repeat_interleave(self.lengths, output_size=self.param.numel())


class Bucket:
    """Parameters of one dtype and device. Those with a gradient at the start come first, so that a usual step is one run."""

    def __init__(self, params: list[Tensor], names: Mapping[str, float], state: State) -> None:
        self.params = sorted(params, key=lambda param: param.grad is None)
        flat = npu_combine_tensors(self.params)
        assert flat is not None
        self.flat: Tensor = flat
        self.grads = GradBuffer(self.params)
        self._addresses = [param.data_ptr() for param in self.params]
        self.adopt_state(names, state)

    def adopt_state(self, names: Mapping[str, float], state: State) -> None:
        """Put the states that parameters have into buffers: at the start, and after a checkpoint was loaded."""
        self.names = dict(names)
        self.states = {name: torch.full_like(self.flat, value) for name, value in names.items()}
        self._views = {name: views_of(flat, self.params) for name, flat in self.states.items()}
        self._clocks = [self._adopt_one(index, state.get(param)) for index, param in enumerate(self.params)]
        self._whole: Run | None = None

    def _adopt_one(self, index: int, state: dict[str, Any] | None) -> Tensor:
        for name, views in self._views.items() if state else ():
            value = state.get(name) if state else None
            if value is not None:
                views[index].copy_(value)
        count = state.get(_STEP, 1) if state else 0  # SGD of torch keeps no count: to have a state is to have begun
        return torch.tensor(float(count))

    def in_place(self) -> bool:
        """Whether the parameters still are in the buffer: a program may have given them other memory."""
        return all(map(eq, map(Tensor.data_ptr, self.params), self._addresses))

    def runs(self, state: State) -> list[Run]:
        """What to update now; counts the step."""
        complete = self.grads.gather()
        if not complete or self._whole is None:
            runs = self._find_runs(state)
            self._whole = runs[0] if complete and len(runs) == 1 else None
        else:
            runs = [self._whole]
        for clock in {id(run.clock): run.clock for run in runs}.values():
            clock += 1
        return runs

    def _find_runs(self, state: State) -> list[Run]:
        missing = self.grads.missing
        fresh: dict[tuple[int, bool], Tensor] = {}
        for index, param in enumerate(self.params):
            key = int(self._clocks[index]), index in missing
            self._clocks[index] = clock = fresh.setdefault(key, torch.tensor(float(key[0])))
            if index not in missing or param in state:
                state[param].update({_STEP: clock}, **{name: views[index] for name, views in self._views.items()})
        runs = []
        for _, indices in groupby(range(len(self.params)), lambda index: id(self._clocks[index])):
            run = list(indices)
            if run[0] not in missing:
                runs.append(self._run(run[0], run[-1] + 1, self._clocks[run[0]]))
        return runs

    def _run(self, first: int, end: int, clock: Tensor) -> Run:
        sizes = [param.numel() for param in self.params]
        start, length = sum(sizes[:first]), sum(sizes[first:end])
        cut = {name: flat.narrow(0, start, length) for name, flat in self.states.items()}
        shapes = [param.shape for param in self.params[first:end]]
        return Run(self.flat.narrow(0, start, length), self.grads.flat.narrow(0, start, length), cut, shapes, clock)
