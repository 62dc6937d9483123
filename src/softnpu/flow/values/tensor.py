"""TensorDesc, Tensor and alloc_tensor: an array with the manners of the manual."""

from __future__ import annotations

import copy as copying
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from softnpu.flow import codes, log
from softnpu.flow.errors import DfException
from softnpu.flow.values import dtypes
from softnpu.flow.values.dtypes import DType as DType

Array = np.ndarray[Any, Any]
ALIGNMENTS = (32, 64, 128, 256, 512, 1024)
MAX_RANK = 32


class TensorDesc:
    """Element type and shape; a negative dimension is dynamic."""

    def __init__(self, dtype: DType, shape: Sequence[int]) -> None:
        if not isinstance(dtype, DType):
            raise DfException(f"dtype is a df.DT_… object, not {dtype!r}.", codes.DATATYPE_INVALID)
        if not isinstance(shape, list | tuple):
            raise DfException(f"shape is a list or tuple of int, not {type(shape).__name__}.", codes.SHAPE_INVALID)
        for dim in shape:
            if not isinstance(dim, int):
                raise DfException(
                    f"shape {shape!r} has an element of type {type(dim).__name__}; int is expected.",
                    codes.SHAPE_INVALID,
                )
        self._dtype = dtype
        self._shape = list(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorDesc) and self._dtype is other._dtype and self._shape == other._shape

    def __repr__(self) -> str:
        return f"TensorDesc(dtype={self._dtype!r}, shape={self._shape})"


class Tensor:
    """An array on its way through a graph. `numpy()` looks into it; arithmetic is NumPy's."""

    __slots__ = ("__weakref__", "_array")

    def __init__(self, data: Any, *, tensor_desc: TensorDesc | None = None) -> None:
        if tensor_desc is not None and not isinstance(tensor_desc, TensorDesc):
            raise DfException(f"tensor_desc is a df.TensorDesc, not {type(tensor_desc).__name__}.")
        if isinstance(data, Tensor):
            array: Array = data.numpy(copy=True)
        elif isinstance(data, np.ndarray):
            if not data.flags.c_contiguous:
                raise DfException("The array is not C-contiguous; pass numpy.ascontiguousarray(array).")
            array = np.asarray(data)
        elif hasattr(data, "__array__"):  # a torch tensor and its like: in C order, and no memory of theirs
            array = np.array(np.asarray(data), order="C")
        else:
            array = np.array(data)
        self._array: Array = _fit(array, tensor_desc)

    def numpy(self, copy: bool = False) -> Array:
        """The array: by default the tensor's own memory. A tensor of strings is only given as a copy."""
        if copy:
            return self._array.copy()
        if self._array.dtype.kind in "US":
            raise DfException("A DT_STRING tensor has no array of its own; use numpy(copy=True).")
        return self._array

    def get_shape(self) -> list[int]:
        """The dimensions."""
        return list(self._array.shape)

    def get_data_type(self) -> Any:
        """The NumPy type of the elements."""
        return self._array.dtype.type

    def get_data_size(self) -> int:
        """Bytes of the data."""
        return int(self._array.nbytes)

    def get_element_cnt(self) -> int:
        """Number of elements."""
        return int(self._array.size)

    def reshape(self, shape: Sequence[int]) -> int:
        """Other dimensions for the same elements: 0, or 164000 when their number would differ."""
        dims = [operator.index(dim) for dim in shape]
        if len(dims) > MAX_RANK or any(dim < 0 for dim in dims) or _count(dims) != self._array.size:
            log.error("reshape: %s elements of shape %s do not fit into %s", self._array.size, self.get_shape(), dims)
            return codes.FUNC_PARAM_INVALID
        self._array = self._array.reshape(dims)
        return codes.SUCCESS

    @property
    def _tensor_desc(self) -> TensorDesc:
        return TensorDesc(_element(self._array), list(self._array.shape))

    @property
    def _impl(self) -> Tensor:
        return self

    def __repr__(self) -> str:
        return f"Tensor({self._array!r}, tensor_desc={self._tensor_desc!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return wrap(copying.deepcopy(self._array, memo))


def wrap(array: Array) -> Tensor:
    """A tensor around an array that is known to be right; nothing is looked at."""
    tensor = Tensor.__new__(Tensor)
    tensor._array = array
    return tensor


def _count(dims: Sequence[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _element(array: Array) -> DType:
    element = dtypes.find(array.dtype)
    if element is None:
        names = ", ".join(str(each) for each in dtypes.ALL)
        raise DfException(
            f"A tensor cannot hold elements of type {array.dtype}; it knows {names}.", codes.DATATYPE_INVALID
        )
    return element


def _fit(array: Array, desc: TensorDesc | None) -> Array:
    """The array as its description wants it; a wrong shape is an error, a wrong element type is cast."""
    if array.ndim > MAX_RANK:
        raise DfException(f"A tensor has at most {MAX_RANK} dimensions, not {array.ndim}.", codes.SHAPE_INVALID)
    if desc is None:
        _element(array)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if list(array.shape) != desc._shape:
        raise DfException(
            f"The data has shape {list(array.shape)}, its description says {desc._shape}.", codes.SHAPE_INVALID
        )
    wanted = dtypes.numpy_type(desc._dtype)
    if dtypes.find(array.dtype) is desc._dtype and array.dtype.isnative:
        return array
    log.warning("Tensor: data of type %s is cast to %s", array.dtype, desc._dtype)
    try:
        return array.astype(wanted)
    except TypeError as problem:
        raise ValueError(f"data of type {array.dtype} cannot be cast to {desc._dtype}: {problem}") from problem


# ---- allocation ----------------------------------------------------------------------------------------------------------

Provider = Callable[[int, int], Array]


def _plain(nbytes: int, align: int) -> Array:
    room = np.empty(nbytes + align, np.uint8)
    start = -room.ctypes.data % align
    return room[start : start + nbytes]


_providers: list[Provider] = [_plain]


def add_provider(provider: Provider) -> None:
    """From now on alloc_tensor takes memory from here: an engine's travels without a copy."""
    _providers.append(provider)


def remove_provider(provider: Provider) -> None:
    """An engine ended: back to the one before."""
    _providers.remove(provider)


def allocate(shape: Sequence[int], dtype: Any, align: int = 64) -> Array:
    """An array for a message, aligned; its content is undefined."""
    kind = _wanted(dtype)
    if kind is dtypes.DT_STRING:
        raise DfException("Strings have no fixed size: make a df.Tensor of them instead.", codes.DATATYPE_INVALID)
    if align not in ALIGNMENTS:
        raise DfException(f"align is one of {ALIGNMENTS}, not {align!r}.", codes.DATATYPE_INVALID)
    dims = [operator.index(dim) for dim in shape]
    if len(dims) > MAX_RANK or any(dim < 0 for dim in dims):
        raise DfException(
            f"shape {list(shape)} is not usable: at most {MAX_RANK} dimensions of 0 or more.", codes.SHAPE_INVALID
        )
    element = np.dtype(dtypes.numpy_type(kind))
    try:
        room = _providers[-1](_count(dims) * element.itemsize, align)
    except MemoryError as problem:
        raise DfException(f"No memory for a tensor {dims} of {kind}: {problem}", codes.DATATYPE_INVALID) from problem
    return np.ndarray(dims, element, room)


def _wanted(dtype: Any) -> DType:
    if isinstance(dtype, DType):
        return dtype
    wanted = dtypes.find(dtype) if isinstance(dtype, type | np.dtype) else None
    if wanted is None:
        raise TypeError(f"dtype is a df.DT_… object or a NumPy type of a tensor, not {dtype!r}")
    return wanted


def alloc_tensor(shape: Sequence[int], dtype: Any, align: int = 64) -> Tensor:
    """A tensor in the memory of messages: feeding it or returning it from a function needs no copy."""
    return wrap(allocate(shape, dtype, align))
