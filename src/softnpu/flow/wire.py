"""Records: how messages and notices look in a pipe. Each is written whole, so that many may write to one pipe."""

from __future__ import annotations

import select
import struct
from typing import Any

import numpy as np

from softnpu.flow.memory import Atlas
from softnpu.flow.message import USER_DATA_SIZE, Message, Payload

PIPE_BUF = select.PIPE_BUF  # a write up to this size is never mixed with another

DATA, WANT, ROOM, NOTICE, STOP, TAP = range(1, 7)
_SHARED, _USER_TRANS, _USER_DATA, _ENVELOPE, _AGAIN, HANDED = 1, 2, 4, 8, 16, 32
_BITS_AT = 5

# length, kind, bits, epoch of the receiver, epoch of the sender, channel
HEAD = struct.Struct("<IBBBBI")
# sequence, transaction, message type, length of meta, form, number of chunks
BODY = struct.Struct("<QQHHBB")
# ret_code, flags, data label, route label, start, end: only where one of them is not 0
ENVELOPE = struct.Struct("<qIIIQQ")
_INLINE = struct.Struct("<BI")
_REFERENCE = struct.Struct("<BHIQQBB")
_SEQUENCE = struct.Struct("<Q")
_BODY_AT = HEAD.size
_REST_AT = HEAD.size + BODY.size
MOST_INLINE = PIPE_BUF - _REST_AT - ENVELOPE.size - USER_DATA_SIZE


def inline_chunk(data: Any) -> bytes:
    """A chunk that lies in the record itself."""
    content = data.tobytes() if type(data) is np.ndarray else bytes(data)
    return _INLINE.pack(0, len(content)) + content


def reference_chunk(arena: int, block: int, start: int, nbytes: int, lo: int, hi: int) -> bytes:
    """A chunk in an arena, with tokens for it."""
    return _REFERENCE.pack(1, arena, block, start, nbytes, lo, hi)


def data_record(message: Message, chunks: bytes, count: int, address: tuple[int, int, int, int], shared: bool) -> bytes:
    """A message as one record; `address` is receiver's epoch, sender's epoch, channel and sequence."""
    bits = (_SHARED if shared else 0) | (_USER_TRANS if message.user_trans else 0) | (_AGAIN if message.again else 0)
    tail = chunks
    if message.user_data:
        bits |= _USER_DATA
        tail = message.user_data.ljust(USER_DATA_SIZE, b"\0") + tail
    if (
        message.ret_code
        or message.flags
        or message.data_label
        or message.route_label
        or message.start_time
        or message.end_time
    ):
        bits |= _ENVELOPE
        tail = (
            ENVELOPE.pack(
                message.ret_code,
                message.flags,
                message.data_label,
                message.route_label,
                message.start_time,
                message.end_time,
            )
            + tail
        )
    payload = message.payload
    receiver, sender, channel, sequence = address
    length = _REST_AT + len(payload.meta) + len(tail)
    return (
        HEAD.pack(length, DATA, bits, receiver, sender, channel)
        + BODY.pack(sequence, message.trans_id, message.msg_type, len(payload.meta), payload.form, count)
        + payload.meta
        + tail
    )


def readdressed(record: bytes, receiver: int, sequence: int, again: bool = False) -> bytes:
    """The same record in another place of the channel, or for a receiver that was started again."""
    length, kind, bits, _, sender, channel = HEAD.unpack_from(record)
    if again:
        bits |= _AGAIN
    head = HEAD.pack(length, kind, bits, receiver, sender, channel)
    return head + _SEQUENCE.pack(sequence) + record[_BODY_AT + _SEQUENCE.size :]


def handed(record: bytes) -> bytes:
    """The same record, with a word that its memory is not its sender's: a former life may have handed it on before."""
    return record[:_BITS_AT] + bytes([record[_BITS_AT] | HANDED]) + record[_BITS_AT + 1 :]


def short_record(kind: int, receiver: int, sender: int, channel: int, number: int) -> bytes:
    """A word about a channel: that its sender, which has sent so many, waits for room; or that there is some."""
    return HEAD.pack(_BODY_AT + _SEQUENCE.size, kind, 0, receiver, sender, channel) + _SEQUENCE.pack(number)


def number_of(buffer: bytes, at: int) -> int:
    """The number in a short record."""
    return int(_SEQUENCE.unpack_from(buffer, at + _BODY_AT)[0])


def plain_record(kind: int, data: bytes = b"", receiver: int = 0, number: int = 0) -> bytes:
    """A notice with free content."""
    return HEAD.pack(HEAD.size + len(data), kind, 0, receiver, 0, number) + data


def read_data(buffer: bytes, at: int, bits: int, atlas: Atlas) -> tuple[int, Message]:
    """The sequence and the message of a record that begins at `at`."""
    sequence, trans_id, msg_type, meta_length, form, count = BODY.unpack_from(buffer, at + _BODY_AT)
    position = at + _REST_AT
    meta = buffer[position : position + meta_length]
    position += meta_length
    message = Message(None, msg_type, trans_id)  # type: ignore[arg-type]  # set below
    if bits:
        message.shared = bool(bits & _SHARED)
        message.user_trans = bool(bits & _USER_TRANS)
        message.again = bool(bits & _AGAIN)
        if bits & _ENVELOPE:
            (
                message.ret_code,
                message.flags,
                message.data_label,
                message.route_label,
                message.start_time,
                message.end_time,
            ) = ENVELOPE.unpack_from(buffer, position)
            position += ENVELOPE.size
        if bits & _USER_DATA:
            message.user_data = buffer[position : position + USER_DATA_SIZE]
            position += USER_DATA_SIZE
    chunks: list[Any] = []
    for _ in range(count):
        if buffer[position]:
            _, arena, block, start, nbytes, lo, hi = _REFERENCE.unpack_from(buffer, position)
            chunks.append(atlas.lease(arena, block, start, nbytes, lo, hi))
            position += _REFERENCE.size
        else:
            _, nbytes = _INLINE.unpack_from(buffer, position)
            position += _INLINE.size
            chunks.append(bytearray(buffer[position : position + nbytes]))
            position += nbytes
    message.payload = Payload(form, meta, chunks)
    return sequence, message
