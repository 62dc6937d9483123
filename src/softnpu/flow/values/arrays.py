"""Arrays as payloads: type and shape as a few bytes, and the memory of the array itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.message import ARRAY, TENSOR, Message, Payload

Array = np.ndarray[Any, Any]
_CACHE_LIMIT = 4096
_metas: dict[tuple[Any, tuple[int, ...]], bytes] = {}
_shapes: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}


def _meta(array: Array) -> bytes:
    """dtype and shape as bytes; remembered, because a stream of messages has few of them."""
    key = (array.dtype, array.shape)
    meta = _metas.get(key)
    if meta is None:
        own = array.dtype.kind == "V" and array.dtype.type is not np.void  # bfloat16 and friends have no code
        name = array.dtype.name if own else array.dtype.str
        meta = " ".join([name, *map(str, array.shape)]).encode()
        if len(_metas) < _CACHE_LIMIT:
            _metas[key] = meta
    return meta


def _shape(meta: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    known = _shapes.get(meta)
    if known is None:
        name, *dims = meta.decode().split(" ")
        known = _dtype(name), tuple(map(int, dims))
        if len(_shapes) < _CACHE_LIMIT:
            _shapes[meta] = known
    return known


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def is_plain(array: Array) -> bool:
    """Whether an array is its bytes: no objects, no records, in C order."""
    return (
        bool(array.flags.c_contiguous)
        and not array.dtype.hasobject
        and (array.dtype.kind != "V" or not array.dtype.names)
    )


def _view(meta: bytes, chunk: Any) -> Array:
    dtype, shape = _shape(meta)
    return np.ndarray(shape, dtype, chunk)


def encode_tensor(array: Array) -> Payload:
    """The payload of a df.Tensor."""
    return Payload(TENSOR, _meta(array), (array,))


def decode_tensor(message: Message) -> Array:
    """The array of a tensor (or of a fed ndarray), looking into the message's memory; read-only when others read it too."""
    payload = message.payload
    if payload.form not in (TENSOR, ARRAY):
        raise DfException(
            f"The message holds no tensor (message type {message.msg_type}); objects are fetched with fetch().",
            codes.PARAM_INVALID,
        )
    array = _view(payload.meta, payload.chunks[0])
    if message.shared and array.flags.writeable:
        array.flags.writeable = False
    return array


def decode_array(message: Message) -> Array:
    """The array of an ndarray that was fed or returned; the reader's own."""
    array = _view(message.payload.meta, message.payload.chunks[0])
    return array.copy() if message.shared or not array.flags.writeable else array


def encode_array(array: Array) -> Payload:
    """The payload of an ndarray in C order."""
    return Payload(ARRAY, _meta(array), (array,))
