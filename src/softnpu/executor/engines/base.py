"""What an engine is: something that runs a program on arrays that lie in device memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.base.dtypes import numpy_name

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of a tensor: where it lies, its aclDataType and its dims. An output whose dims are not known yet has none."""

    name: str  # the engine's name of the tensor
    dtype: int
    shape: Shape | None
    address: int


class Plan(ABC):
    """A run that is ready to go: places bound, nothing left to look up."""

    @abstractmethod
    def run(self) -> None:
        """Run once. Raises the engine's own exception."""

    @abstractmethod
    def results(self) -> list[tuple[int, Shape, int, object]]:
        """After a run, for each output without a place: aclDataType, dims, address, and an object that keeps it alive."""


class Engine(ABC):
    """A program that was made ready to run."""

    name: str

    @abstractmethod
    def plan(self, inputs: list[Place], outputs: list[Place]) -> Plan:
        """Bind places. Outputs without an address are allocated by the engine with every run."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


class _Interface:
    """An address as NumPy's array interface; who made the place answers for it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: Shape, typestr: str) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3}


def view(place: Place) -> Array:
    """A place as an array; nothing is copied."""
    assert place.shape is not None
    dtype = np.dtype(numpy_name(place.dtype) or np.uint16)
    if not place.address:
        return np.zeros(place.shape, dtype)
    return np.asarray(_Interface(place.address, place.shape, dtype.str))
