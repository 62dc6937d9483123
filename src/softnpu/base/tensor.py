"""Tensor descriptions and data buffers: plain bookkeeping that models and operators share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from softnpu.base.dtypes import element_size
from softnpu.base.errors import NpuError, codes

UNKNOWN_RANK = 0xFFFFFFFFFFFFFFFE
MAX_DIMS = 128
_LIMIT = (1 << 64) - 1


@dataclass
class DataBuffer:
    """An address and a size; owns neither."""

    address: int
    size: int


@dataclass
class TensorDesc:
    """Type, dims and format of a tensor, with everything the setters of the manual may attach."""

    data_type: int
    dims: list[int]
    format: int
    name: str = ""
    storage_format: int | None = None
    storage_dims: list[int] | None = None
    shape_range: list[list[int]] = field(default_factory=list)
    value_range: list[list[int]] = field(default_factory=list)
    dynamic_input: str = ""
    constant: bytes | None = None
    placement: int = 0
    address: int = 0
    followers: list[int] = field(default_factory=list)  # handles of the rest of a list that this description heads

    def __post_init__(self) -> None:
        check_dims(self.dims)

    @property
    def unknown_rank(self) -> bool:
        """Whether not even the number of dims is known."""
        return self.dims == [-2]

    def elements(self) -> int:
        """Product of the dims, 1 for a scalar, 0 while a dim is unknown."""
        if any(dim < 0 for dim in self.dims):
            return 0
        count = math.prod(self.dims)
        if count > _LIMIT:
            raise NpuError(
                codes.INVALID_PARAM, f"the dims {self.dims} have more elements than 64 bits can count", "check the dims"
            )
        return count

    def bytes(self) -> int:
        """Elements times element size."""
        size = self.elements() * element_size(self.data_type)
        if size > _LIMIT:
            raise NpuError(
                codes.INVALID_PARAM, f"the dims {self.dims} need more bytes than 64 bits can count", "check the dims"
            )
        return size

    def dim(self, index: int) -> int:
        """One dim; raises when there is none of this index."""
        if not 0 <= index < len(self.dims) or self.unknown_rank:
            raise NpuError(
                codes.INVALID_PARAM,
                f"dim {index} does not exist, the description has {0 if self.unknown_rank else len(self.dims)} dims",
                "see get_tensor_desc_num_dims",
            )
        return self.dims[index]

    def copy(self) -> TensorDesc:
        """An independent description of the same tensor."""
        return replace(
            self,
            dims=list(self.dims),
            shape_range=[list(pair) for pair in self.shape_range],
            value_range=[list(pair) for pair in self.value_range],
            followers=[],
        )


def check_dims(dims: list[int]) -> None:
    """Raise for dims that no tensor can have."""
    if len(dims) > MAX_DIMS:
        raise NpuError(
            codes.STORAGE_OVER_LIMIT,
            f"{len(dims)} dims are more than the {MAX_DIMS} that are allowed",
            "use fewer dims",
        )
    if dims != [-2] and any(dim < -1 for dim in dims):
        raise NpuError(
            codes.INVALID_PARAM,
            f"dims {dims} hold a value below -1",
            "use -1 for an unknown dim, [-2] alone for an unknown rank",
        )


def check_ranges(ranges: list[list[int]], what: str) -> list[list[int]]:
    """Ranges as pairs `[low, high]`, high -1 meaning unbounded."""
    for pair in ranges:
        if len(pair) != 2 or (pair[1] != -1 and pair[0] > pair[1]):
            raise NpuError(
                codes.INVALID_PARAM,
                f"{what} {pair} is no pair [low, high]",
                "write one pair per dim; high -1 means unbounded",
            )
    return ranges
