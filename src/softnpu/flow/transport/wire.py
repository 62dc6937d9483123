"""Records: how messages and notices look in a pipe. Each is written whole, so that many may write to one pipe."""

from __future__ import annotations

import select
import struct
from typing import Any

import numpy as np

from softnpu.flow.message import USER_DATA_SIZE, Message, Payload, nbytes_of
from softnpu.flow.values.memory import Arenas

PIPE_BUF = select.PIPE_BUF  # a write up to this size is never mixed with another

DATA, WANT, ROOM, NOTICE, STOP, TAP, BEGIN = range(1, 8)
_SHARED, _USER_TRANS, _USER_DATA, _ENVELOPE, _AGAIN, HANDED, GIVES, REMADE = 1, 2, 4, 8, 16, 32, 64, 128
# _AGAIN: the reader, or a former life of it, may have worked on it before. REMADE: it comes from a call that a former life
# of the sender may have made already, so the reader may have it.
_KIND_AT, BITS_AT = 4, 5

# length, kind, bits, epoch of the receiver, epoch of the sender, channel
HEAD = struct.Struct("<IBBBBI")
# sequence, transaction, message type, length of meta, form, number of chunks
BODY = struct.Struct("<QQHHBB")
# ret_code, flags, data label, route label, start, end: only where one of them is not 0
ENVELOPE = struct.Struct("<qIIIQQ")
_INLINE = struct.Struct("<BI")
_REFERENCE = struct.Struct("<BHIQQBB")
_SEQUENCE = struct.Struct("<Q")
_BEGIN = struct.Struct("<QQQ")
_BODY_AT = HEAD.size
_REST_AT = HEAD.size + BODY.size
MOST_INLINE = PIPE_BUF - _REST_AT - ENVELOPE.size - USER_DATA_SIZE


def inline_chunks(payload: Payload) -> bytes | None:
    """The chunks as they lie in the record itself; None if they do not fit there."""
    chunks = payload.chunks
    if not chunks:
        return b""
    size = nbytes_of(chunks[0]) + 8 if len(chunks) == 1 else sum(nbytes_of(chunk) + 8 for chunk in chunks)
    if size + len(payload.meta) > MOST_INLINE:
        return None
    return _inline(chunks[0]) if len(chunks) == 1 else b"".join([_inline(chunk) for chunk in chunks])


def _inline(chunk: Any) -> bytes:
    content = chunk.tobytes() if type(chunk) is np.ndarray else bytes(chunk)
    return _INLINE.pack(0, len(content)) + content


def reference_chunk(arena: int, block: int, start: int, nbytes: int, lo: int, hi: int) -> bytes:
    """A chunk in an arena, with tokens for it."""
    return _REFERENCE.pack(1, arena, block, start, nbytes, lo, hi)


def data_record(message: Message, chunks: bytes, count: int, address: tuple[int, int, int, int], shared: bool) -> bytes:
    """A message as one record; `address` is receiver's epoch, sender's epoch, channel and sequence."""
    bits = (_SHARED if shared else 0) | (_USER_TRANS if message.user_trans else 0)
    if message.again:
        bits |= _AGAIN | REMADE
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


def marked(record: bytes, bit: int) -> bytes:
    """The same record, with a word about its memory: it is its sender's own, and leaves it with this record (GIVES); or it
    is not, and a former life may have handed it on before (HANDED)."""
    return record[:BITS_AT] + bytes([record[BITS_AT] | bit]) + record[BITS_AT + 1 :]


def short_record(kind: int, receiver: int, sender: int, channel: int, number: int) -> bytes:
    """A word about a channel: that its sender, which has sent so many, waits for room; or that there is some."""
    return HEAD.pack(_BODY_AT + _SEQUENCE.size, kind, 0, receiver, sender, channel) + _SEQUENCE.pack(number)


def begin_record(receiver: int, sender: int, channel: int, numbers: tuple[int, int, int]) -> bytes:
    """The first word of a sender to a receiver, if one of them is not the first: see `Incoming.begin`."""
    return HEAD.pack(_BODY_AT + _BEGIN.size, BEGIN, 0, receiver, sender, channel) + _BEGIN.pack(*numbers)


def beginning_of(buffer: bytes, at: int) -> tuple[int, ...]:
    """The numbers in such a record."""
    return _BEGIN.unpack_from(buffer, at + _BODY_AT)


def number_of(buffer: bytes, at: int) -> int:
    """The number in a short record."""
    return int(_SEQUENCE.unpack_from(buffer, at + _BODY_AT)[0])


def transaction_of(record: bytes) -> int:
    """The transaction of a record of data."""
    return int(BODY.unpack_from(record, _BODY_AT)[1])


def references(record: bytes) -> list[tuple[int, ...]]:
    """The chunks of a record that has them all in arenas: kind, arena, block, start, length, first and last token."""
    return list(_REFERENCE.iter_unpack(record[-_REFERENCE.size * record[_REST_AT - 1] :]))


def accept(message: Message) -> Message:
    """A message that was read is received: its memory is returned when nobody looks at it any more."""
    if message.ticket is not None:
        message.ticket[0] = True
        message.ticket = None
    return message


def tap_record(message: Message, chunks: bytes, number: int) -> bytes:
    """Like a record of data, with its bits where the sequence would be: a tap has no sequence."""
    record = bytearray(data_record(message, chunks, len(message.payload.chunks), (0, 0, number, 0), False))
    record[_KIND_AT], record[_BODY_AT] = TAP, record[BITS_AT]
    return bytes(record)


def read_tap(data: bytes, arenas: Arenas) -> Message:
    """The message of such a record, without its head."""
    _, message = read_data(bytes(HEAD.size) + data, 0, data[0], arenas)
    return accept(message)


def plain_record(kind: int, data: bytes = b"", receiver: int = 0, number: int = 0) -> bytes:
    """A notice with free content."""
    return HEAD.pack(HEAD.size + len(data), kind, 0, receiver, 0, number) + data


def read_data(buffer: bytes, at: int, bits: int, arenas: Arenas) -> tuple[int, Message]:
    """The sequence and the message of a record that begins at `at`. See `accept`: its ticket grants its memory."""
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
            envelope = ENVELOPE.unpack_from(buffer, position)
            message.ret_code, message.flags, message.data_label, message.route_label = envelope[:4]
            message.start_time, message.end_time = envelope[4:]
            position += ENVELOPE.size
        if bits & _USER_DATA:
            message.user_data = buffer[position : position + USER_DATA_SIZE]
            position += USER_DATA_SIZE
    chunks: list[Any] = []
    grant = None
    for _ in range(count):
        if buffer[position]:
            if grant is None:
                message.ticket = grant = [False]
            _, arena, block, start, nbytes, lo, hi = _REFERENCE.unpack_from(buffer, position)
            view = arenas.block_view(arena, block, start, nbytes, lo, hi)
            view.grant = grant
            chunks.append(view)
            position += _REFERENCE.size
        else:
            _, nbytes = _INLINE.unpack_from(buffer, position)
            position += _INLINE.size
            chunks.append(bytearray(buffer[position : position + nbytes]))
            position += nbytes
    message.payload = Payload(form, meta, chunks)
    return sequence, message
