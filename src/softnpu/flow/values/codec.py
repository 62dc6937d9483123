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
from softnpu.flow.values import torch_door
from softnpu.flow.values.arrays import decode_array, is_plain
from softnpu.flow.values.arrays import decode_tensor as decode_tensor
from softnpu.flow.values.arrays import encode_array as encode_array
from softnpu.flow.values.arrays import encode_tensor as encode_tensor
from softnpu.flow.values.memory import as_bytes, block_view_of
from softnpu.flow.values.tensor import wrap

if TYPE_CHECKING:
    from softnpu.flow.values.register import MsgTypeRegister

_NULL = Payload(NULL)
_PLAIN_BYTES = b"bytes"
_SMALL_BUFFER = 1024
_MOST_BUFFERS = 32


# ---- objects -------------------------------------------------------------------------------------------------------------


class _NeedsCloudpickle(Exception):
    """Something in the value belongs to the main program: another process cannot import it."""


class _Pickler(pickle.Pickler):
    """pickle in C, which stops where only cloudpickle gives the right answer."""

    def reducer_override(self, obj: Any) -> Any:
        if getattr(obj, "__module__", None) == "__main__" and isinstance(obj, type | _FunctionType):
            raise _NeedsCloudpickle
        return NotImplemented


_FunctionType = type(lambda: None)


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
    if kind is np.ndarray and is_plain(value):
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
        return wrap(decode_tensor(message))
    if form == NULL:
        return None
    if form == PICKLE:
        return _unpickled(payload, message.shared)
    if form == LOCAL:
        return torch_door.on_host(payload.value)
    return _other(message, register)


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
    other = message.copy()
    meta, chunks = torch_door.to_chunks(message.payload.value)
    other.payload = Payload(CUSTOM, meta, chunks)
    return other


def private(message: Message) -> Message:
    """A message for a reader in the same process: its own envelope, and its own bytes unless it travels by reference."""
    other = message.copy()
    if message.payload.form != LOCAL and message.payload.chunks:
        payload = message.payload
        other.payload = Payload(payload.form, payload.meta, [as_bytes(chunk).copy() for chunk in payload.chunks])
    other.shared = False
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
        or block_view_of(value) is None
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

    whole = np.zeros(4, np.uint8)
    part = np.zeros(4, np.uint8)[1:]
    return of_value(whole), of_base(part)


_VALUE, _LINK = _calibrate()
