"""What travels in a call from one actor to another: plain tuples, and objects of the store beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softnpu.flow.message import Message, Payload, nbytes_of
from softnpu.flow.values.memory import as_bytes

DATA, CREDIT, NOTICE = range(3)
STOP, MEET = "stop", "meet"
INLINE = 96 << 10  # Ray itself passes arguments up to 100 kB inside the call
_SMALL = 4096

Item = tuple[Any, ...]
Origin = tuple[
    int, int, int, int
]  # channel, life of its sender, number: the message it was made from; and which result


class Record:
    """One message on one channel; `refs` keep its objects in the store alive until the receiver is done with them."""

    __slots__ = ("body", "origin", "refs", "size")

    def __init__(self, body: Item, refs: tuple[Any, ...], size: int, origin: Origin | None) -> None:
        self.body = body
        self.refs = refs
        self.size = size
        self.origin = origin

    def item(self, channel: int, sequence: int) -> Item:
        """As it is sent."""
        return DATA, channel, sequence, self.origin, self.body


def pack(message: Message, put: Callable[[Any], Any]) -> tuple[Item, tuple[Any, ...], int]:
    """Body, objects of the store and size in the call; None in the body stands for the next object."""
    payload = message.payload
    sizes = [nbytes_of(chunk) for chunk in payload.chunks]
    stored = sum(sizes) > INLINE
    refs: list[Any] = []
    chunks: list[bytes | None] = []
    for chunk, size in zip(payload.chunks, sizes, strict=True):
        if stored and size > _SMALL:
            refs.append(put(as_bytes(chunk)))
            chunks.append(None)
        else:
            chunks.append(bytes(as_bytes(chunk)))
    envelope = (
        message.msg_type,
        message.trans_id,
        message.ret_code,
        message.flags,
        message.start_time,
        message.end_time,
        message.data_label,
        message.route_label,
        message.user_data,
        message.user_trans,
    )
    inline = sum(len(chunk) for chunk in chunks if chunk is not None)
    return (envelope, payload.form, payload.meta, chunks), tuple(refs), inline + 200


def unpack(body: Item, objects: list[Any]) -> Message:
    """The message; takes its objects from the front of the list. Those are read-only and others read them too."""
    envelope, form, meta, chunks = body
    shared = any(chunk is None for chunk in chunks)
    message = Message(Payload(form, meta, [objects.pop(0) if each is None else bytearray(each) for each in chunks]))
    (
        message.msg_type,
        message.trans_id,
        message.ret_code,
        message.flags,
        message.start_time,
        message.end_time,
        message.data_label,
        message.route_label,
        message.user_data,
        message.user_trans,
    ) = envelope
    message.shared = shared
    return message
