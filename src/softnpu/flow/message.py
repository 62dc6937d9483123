"""What travels on an edge: an envelope and a payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TENSOR_DATA = 0
RAW_DATA = 1
TORCH_TENSOR = 1023
USER_FIRST = 1024
PICKLED = 65535

EOS = 1
SEG = 2
USER_DATA_SIZE = 64

# Payload forms: how the chunks are to be read. What a program sees of them is the message type.
NULL, TENSOR, RAW, ARRAY, PICKLE, CUSTOM, LOCAL = range(7)


class Payload:
    """`chunks` are buffers (bytes, memoryview, uint8 arrays); `meta` says what they are; a LOCAL payload holds its value."""

    __slots__ = ("chunks", "form", "meta", "owned", "value")

    def __init__(self, form: int, meta: bytes = b"", chunks: Sequence[Any] = (), value: Any = None) -> None:
        self.form = form
        self.meta = meta
        self.chunks = chunks
        self.value = value
        self.owned = False  # nobody else looks at the chunks: their memory may be passed on


def nbytes_of(chunk: Any) -> int:
    """The length of a chunk."""
    return chunk.nbytes if isinstance(chunk, np.ndarray) else memoryview(chunk).nbytes


EMPTY = Payload(NULL)


class Message:
    """One message. Its payload is never changed after it was sent; the envelope belongs to whoever holds the message."""

    __slots__ = (
        "again",
        "arrived",
        "data_label",
        "end_time",
        "flags",
        "msg_type",
        "payload",
        "ret_code",
        "route_label",
        "shared",
        "start_time",
        "ticket",
        "trans_id",
        "user_data",
        "user_trans",
    )

    def __init__(self, payload: Payload = EMPTY, msg_type: int = TENSOR_DATA, trans_id: int = 0) -> None:
        self.payload = payload
        self.msg_type = msg_type
        self.trans_id = trans_id
        self.ret_code = 0
        self.flags = 0
        self.start_time = 0
        self.end_time = 0
        self.data_label = 0
        self.route_label = 0
        self.user_data = b""  # at most 64 bytes; empty: all zero
        self.user_trans = False  # the program chose the transaction id
        self.arrived = 0  # when it came, on the clock of calls; 0: its wait is not measured
        self.again = False  # made from a message that was sent again after a crash: it may have been sent before
        self.ticket: Any = None  # where it came from, for the engine
        self.shared = False  # somebody else reads the same memory: views are read-only, objects are copied

    @property
    def null(self) -> bool:
        """Whether it carries no data."""
        return self.payload.form == NULL

    def inherit(self, source: Message) -> Message:
        """Take over what passes through a node: id, times, flags and user data."""
        self.trans_id = source.trans_id
        self.flags = source.flags
        self.start_time = source.start_time
        self.end_time = source.end_time
        self.user_data = source.user_data
        self.data_label = source.data_label
        self.user_trans = source.user_trans
        return self

    def release(self) -> None:
        """Let go of the payload: whoever decoded it is the only one to hold it now."""
        self.payload = EMPTY

    def copy(self) -> Message:
        """The same payload in an envelope of its own."""
        other = Message(self.payload, self.msg_type)
        other.inherit(self)
        other.ret_code = self.ret_code
        other.route_label = self.route_label
        other.shared = self.shared
        return other


def failure(code: int, source: Message | None = None, trans_id: int = 0) -> Message:
    """A message that says that its transaction failed."""
    message = Message(trans_id=trans_id)
    if source is not None:
        message.inherit(source)
    message.ret_code = code
    return message
