"""Random numbers: the generators of the devices, seeded before initialisation too."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_npu import _C
from torch_npu.npu._lazy import _lazy_call, _lazy_init
from torch_npu.npu.utils import _get_device_index, current_index, known_index

default_generators: list[torch.Generator] = []


def _fill_generators() -> None:
    """The generator of each device: at import, and again when initialisation finds other devices."""
    default_generators[:] = [_C._default_generator(index) for index in range(_C._get_device_count())]


_fill_generators()
_lazy_call(_fill_generators)


def get_rng_state(device: int | str | torch.device = "npu") -> torch.Tensor:
    """The state of a device's generator: 16 bytes on the CPU, seed and offset."""
    return _C._default_generator(known_index(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices."""
    _lazy_init()
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "npu") -> None:
    """Set the state of a device's generator."""
    copy = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _C._default_generator(_get_device_index(device, optional=True)).set_state(copy))


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _set_rng_state_offset(offset: int, device: int | str | torch.device = "npu") -> None:
    """Set how far a device's generator is, a multiple of 4."""
    _lazy_call(lambda: _C._default_generator(_get_device_index(device, optional=True)).set_offset(offset))


def _get_rng_state_offset(device: int | str | torch.device = "npu") -> int:
    """How far a device's generator is."""
    return _C._default_generator(known_index(device)).get_offset()


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    number = int(seed)
    _lazy_call(lambda: _C._default_generator(current_index()).manual_seed(number))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    number = int(seed)

    def apply() -> None:
        for index in range(_C._get_device_count()):
            _C._default_generator(index).manual_seed(number)

    _lazy_call(apply, seed_all=True)


def seed() -> None:
    """Seed the current device with a random number."""
    _lazy_call(lambda: _C._default_generator(current_index()).seed())


def seed_all() -> None:
    """Seed all devices with one random number."""

    def apply() -> None:
        number = _C._default_generator(0).seed()
        for index in range(1, _C._get_device_count()):
            _C._default_generator(index).manual_seed(number)

    _lazy_call(apply, seed_all=True)


def initial_seed() -> int:
    """The seed of the current device."""
    return _C._default_generator(current_index()).initial_seed()
