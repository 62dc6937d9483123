"""Values to payloads and back. Arrays are never pickled, and arrays inside other objects leave the pickle as buffers."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.message import (
    ARRAY,
    CUSTOM,
    LOCAL,
    NULL,
    PICKLE,
    PICKLED,
    RAW,
    TENSOR,
    TORCH_TENSOR,
    Message,
    Payload,
)
from softnpu.flow.transport.memory import lease_of

if TYPE_CHECKING:
    from softnpu.flow.values.register import MsgTypeRegister

Array = np.ndarray[Any, Any]
_NULL = Payload(NULL)
_PLAIN_BYTES = b"bytes"
_CACHE_LIMIT = 4096
_SMALL_BUFFER = 1024
_MOST_BUFFERS = 32
_metas: dict[tuple[Any, tuple[int, ...]], bytes] = {}
_shapes: dict[bytes, tuple[np.dtype[Any], tuple[int, ...]]] = {}


# ---- arrays --------------------------------------------------------------------------------------------------------------


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

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


def _simple(array: Array) -> bool:
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


# ---- objects -------------------------------------------------------------------------------------------------------------


class _NeedsCloudpickle(Exception):
    """Something in the value belongs to the main program: another process cannot import it."""


class _Pickler(pickle.Pickler):
    """pickle in C, which stops where only cloudpickle gives the right answer."""

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) == "__main__" and isinstance(obj, type | _FunctionType):
            raise _NeedsCloudpickle
        return NotImplemented


_FunctionType = type(_view)


class _Buffers(list[memoryview]):
    """Large buffers that leave the pickle; small ones, and those past a limit, stay in it."""

    def offer(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _SMALL_BUFFER or len(self) == _MOST_BUFFERS:
            return True
        self.append(view)
        return False


def _pickled(value: Any) -> Payload:
    buffers = _Buffers()
    file = io.BytesIO()
    try:
        _Pickler(file, 5, buffer_callback=buffers.offer).dump(value)
    except (_NeedsCloudpickle, pickle.PicklingError, AttributeError, TypeError):
        # lambdas, local classes, the main program's own: by value
        import cloudpickle

        buffers.clear()
        try:
            data = cloudpickle.dumps(value, 5, buffer_callback=buffers.offer)
        except pickle.PicklingError as problem:
            raise TypeError(f"A {type(value).__name__} cannot be sent to another process: {problem}") from problem
        return Payload(PICKLE, b"", (data, *buffers))
    return Payload(PICKLE, b"", (file.getbuffer(), *buffers))


def encode_object(value: Any, register: MsgTypeRegister) -> tuple[int, Payload]:
    """Any value but a df.Tensor: its message type and payload."""
    kind = type(value)
    if kind is np.ndarray and _simple(value):
        return PICKLED, encode_array(value)
    if value is None:
        return 0, _NULL
    number = register.get_msg_type(kind)
    if number is not None and number != PICKLED:
        serialize = cast(Callable[[Any], Any], register.get_serialize_func(number))
        split = getattr(serialize, "to_chunks", None)
        if split is not None:
            return number, Payload(CUSTOM, *split(value))
        return number, Payload(CUSTOM, b"", (serialize(value),))
    if kind is bytes:
        return PICKLED, Payload(PICKLE, _PLAIN_BYTES, (value,))
    return PICKLED, _pickled(value)


def decode_object(message: Message, register: MsgTypeRegister) -> Any:
    """What a function or `fetch` gets: a df.Tensor, the object, a memoryview for raw bytes, or None."""
    payload = message.payload
    form = payload.form
    if form == ARRAY:
        return decode_array(message)
    if form == TENSOR:
        return _tensor(decode_tensor(message))
    if form == NULL:
        return None
    if form == PICKLE:
        return _unpickled(payload, message.shared)
    if form == LOCAL:
        from softnpu.flow.values import torch_door

        return torch_door.on_host(payload.value)
    return _other(message, register)


def _tensor(array: Array) -> Any:
    from softnpu.flow.values.tensor import wrap

    return wrap(array)


def _unpickled(payload: Payload, shared: bool) -> Any:
    data, *buffers = payload.chunks
    if payload.meta == _PLAIN_BYTES:
        return bytes(data)
    if shared:  # what was pickled is private to each reader
        buffers = [bytearray(buffer) for buffer in buffers]
    return pickle.loads(data, buffers=buffers)


def _other(message: Message, register: MsgTypeRegister) -> Any:
    payload = message.payload
    if payload.meta and message.msg_type == TORCH_TENSOR:
        from softnpu.flow.values import torch_door

        return torch_door.from_chunks(payload.meta, payload.chunks, private=message.shared)
    data = memoryview(payload.chunks[0])
    deserialize = register.get_deserialize_func(message.msg_type) if payload.form == CUSTOM else None
    if deserialize is not None:
        return deserialize(data)
    if payload.form == RAW or message.msg_type != TORCH_TENSOR:
        return data.toreadonly() if message.shared else data
    raise DfException(
        "A torch tensor came, but nothing is registered for message type 1023; use df.npu_model or register it.",
        codes.PARAM_INVALID,
    )


def localize(message: Message) -> Message:
    """A message whose payload can leave the process: a value that was passed by reference becomes bytes."""
    if message.payload.form != LOCAL:
        return message
    from softnpu.flow.values import torch_door

    other = message.copy()
    meta, chunks = torch_door.to_chunks(message.payload.value)
    other.payload = Payload(CUSTOM, meta, chunks)
    return other


# ---- forwarding ------------------------------------------------------------------------------------------------------------


def alone(value: Any) -> bool:
    """Whether one variable of the caller is all that refers to an array of shared memory: then its memory may be sent on.

    A function that returns its argument passes the memory on; one that also keeps it gets a copy made, as pickling would.
    """
    if (
        type(value) is not np.ndarray
        or value.base is None
        or sys.getrefcount(value) > _VALUE
        or lease_of(value) is None
    ):
        return False
    link: Any = value.base
    while type(link) is np.ndarray:
        if sys.getrefcount(link) > _LINK:
            return False
        link = link.base
    return sys.getrefcount(link) <= _LINK


def _calibrate() -> tuple[int, int]:
    """How many references this interpreter counts for a value that one variable of the caller holds, and for a base."""

    def of_value(value: Any) -> int:
        return sys.getrefcount(value)

    def of_base(value: Any) -> int:
        link: Any = value.base
        return sys.getrefcount(link)

    one = np.zeros(4, np.uint8)
    part = np.zeros(4, np.uint8)[1:]
    return of_value(one), of_base(part)


_VALUE, _LINK = _calibrate()
