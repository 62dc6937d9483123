"""Batching on an input: several messages become one, by count or by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softnpu.flow import codes, log
from softnpu.flow.message import ARRAY, EOS, SEG, TENSOR, Message, Payload, failure
from softnpu.flow.plan import CountRule, TimeRule
from softnpu.flow.values import arrays

MAX_RANK = 32

Array = np.ndarray[Any, Any]


class _Refused(Exception):
    """This message cannot join the batch."""


def _dtype(array: Array) -> object:
    """What has to agree: texts of different length are one type."""
    return array.dtype.kind if array.dtype.kind in "SU" else array.dtype


Gone = Callable[[Message], object]


class _Cache:
    """Messages of one batch with their arrays, all of one kind; `fits` compares the shapes of two of them."""

    def __init__(self, fits: Callable[[Array, Array], bool], gone: Gone) -> None:
        self._gone = gone
        self.messages: list[Message] = []
        self._arrays: list[Array] = []
        self._fits = fits

    def add(self, message: Message) -> None:
        """One more; `_Refused` when it is no tensor or array, or not like the others."""
        if message.ret_code:
            raise _Refused(f"its code is {message.ret_code}")
        form = message.payload.form
        if form not in (TENSOR, ARRAY):
            raise _Refused("it is neither a tensor nor an array")
        array = arrays.decode_tensor(message)
        first = self._arrays[0] if self._arrays else array
        if self.messages and form != self.messages[0].payload.form:
            raise _Refused("tensors and arrays do not mix")
        if _dtype(array) != _dtype(first) or not self._fits(array, first):
            raise _Refused(f"{array.dtype}{list(array.shape)} does not go with {first.dtype}{list(first.shape)}")
        self.messages.append(message)
        self._arrays.append(array)

    def shift(self, count: int) -> None:
        """Let the oldest go."""
        for message in self.messages[:count]:
            self._gone(message)
        del self.messages[:count]
        del self._arrays[:count]

    def clear(self, refused: Message | None = None) -> None:
        """Let all go, and the one that did not join."""
        self.shift(len(self.messages))
        if refused is not None:
            self._gone(refused)

    def stack(self, size: int = 0) -> Message:
        """All on a new leading dimension, zeros up to `size` items."""
        arrays = self._arrays
        shape = (max(size, len(arrays)), *arrays[0].shape)
        dtype = np.result_type(*arrays) if arrays[0].dtype.kind in "SU" else arrays[0].dtype
        result = np.zeros(shape, dtype) if size > len(arrays) else np.empty(shape, dtype)
        np.stack(arrays, out=result[: len(arrays)])
        return self._message(result)

    def join(self, dimension: int) -> Message:
        """All along a dimension they have."""
        return self._message(np.concatenate(self._arrays, dimension))

    def _message(self, array: Array) -> Message:
        """The batch: id and user data of its first message, times from the first to the last, flags of all."""
        first, last = self.messages[0], self.messages[-1]
        payload: Payload = arrays.encode_tensor(array)
        payload.form = first.payload.form
        message = Message(payload, first.msg_type).inherit(first)
        message.end_time = last.end_time
        for other in self.messages:
            message.flags |= other.flags
            message.again |= other.again
        return message


def _code(message: Message) -> int:
    """A failure that came in keeps its code."""
    return message.ret_code or codes.FUNC_PARAM_INVALID


def _tell(batch: CountBatch | TimeBatch, message: Message, error: _Refused) -> str:
    """Why a message was refused; in the log too, for 164000 alone tells nobody. A failure that came in was told before."""
    if not message.ret_code:
        lost = f", and {len(batch)} message(s) before it are dropped" if len(batch) else ""
        log.error("%s: transaction %d is refused: %s%s", type(batch).__name__, message.trans_id, error, lost)
    return str(error)


class CountBatch:
    """`batch_size` messages on a new leading dimension; the next batch begins `slide_stride` messages later.

    The timer runs from the first message of a batch, and anew after every output that left messages behind. A batch
    that time ended slides like a full one. An empty message with EOS flushes what is there and follows it.
    `gone` is called with every message that leaves the cache or is refused, before the call that did it returns.
    """

    def __init__(self, rule: CountRule, gone: Gone = lambda message: None) -> None:
        self._rule = rule
        self._stride = rule.slide_stride or rule.batch_size
        self._cache = _Cache(lambda array, first: array.shape == first.shape and array.ndim < MAX_RANK, gone)
        self._since: float | None = None
        self.refused = ""  # why the last message was refused

    def push(self, message: Message, now: float) -> list[Message]:
        """A message arrived; what goes on."""
        results = self.tick(now)
        cache = self._cache
        if message.null and message.flags & EOS and not message.ret_code:
            if cache.messages:
                results.append(self._partial())
                self._reset()
            return [*results, message]
        try:
            cache.add(message)
        except _Refused as error:
            self.refused = _tell(self, message, error)
            self._reset(message)
            return [*results, failure(_code(message), message)]
        if self._since is None:
            self._since = now
        if len(cache.messages) == self._rule.batch_size:
            results.append(cache.stack())
            self._slide(now)
        return results

    def tick(self, now: float) -> list[Message]:
        """What time alone brings about. A late call makes up for no missed timer."""
        due = self.deadline()
        if due is None or now < due:
            return []
        result = self._partial()
        self._slide(now)
        return [result]

    def deadline(self) -> float | None:
        """When `tick` has something to say."""
        if not self._rule.timeout or self._since is None:
            return None
        return self._since + self._rule.timeout / 1000

    def __len__(self) -> int:
        """Messages held."""
        return len(self._cache.messages)

    def _partial(self) -> Message:
        return self._cache.stack(self._rule.batch_size if self._rule.padding else 0)

    def _slide(self, now: float) -> None:
        self._cache.shift(self._stride)
        self._since = now if self._cache.messages else None

    def _reset(self, refused: Message | None = None) -> None:
        self._cache.clear(refused)
        self._since = None


class TimeBatch:
    """Messages whose times fill `time_window`, or that reach up to a SEG or EOS flag.

    "The previous message" counts over a full window too, until a flag or an error starts anew. `gone` as in CountBatch.
    """

    def __init__(self, rule: TimeRule, gone: Gone = lambda message: None) -> None:
        self._rule = rule
        self._cache = _Cache(self._fits, gone)
        self._last: int | None = None  # end of the previous message
        self.refused = ""  # why the last message was refused

    def push(self, message: Message, now: float) -> list[Message]:
        """A message arrived; what goes on. The clock plays no part: messages carry their times."""
        del now
        try:
            if message.null and not message.ret_code:
                return self._end(message)
            self._add(message)
        except _Refused as error:
            self.refused = _tell(self, message, error)
            self._reset(message)
            return [failure(_code(message), message)]
        if self._span() == self._rule.time_window:
            return [self._full(message.flags)]
        if message.flags & (EOS | SEG):
            return self._flush(message)
        return []

    def tick(self, now: float) -> list[Message]:
        """Nothing: only messages end a batch. Here so that both batches are driven alike."""
        del now
        return []

    def deadline(self) -> float | None:
        """Never."""
        return None

    def __len__(self) -> int:
        """Messages held."""
        return len(self._cache.messages)

    def _fits(self, array: Array, first: Array) -> bool:
        dimension = self._rule.batch_dim
        if dimension < 0:
            return array.shape == first.shape and array.ndim < MAX_RANK
        rest = [array.shape[:dimension] + array.shape[dimension + 1 :] for array in (array, first)]
        return dimension < array.ndim == first.ndim and rest[0] == rest[1]

    def _add(self, message: Message) -> None:
        start, end, window = message.start_time, message.end_time, self._rule.time_window
        if not message.ret_code:
            if start > end:
                raise _Refused(f"it starts at {start} and ends at {end}")
            if self._last is not None and start < self._last:
                raise _Refused(f"it starts at {start}, the previous one ends at {self._last}")
            begin = self._cache.messages[0].start_time if self._cache.messages else start
            if 0 < window < end - begin:
                raise _Refused(f"{begin} to {end} is longer than the window {window}")
        self._cache.add(message)
        self._last = end

    def _span(self) -> int:
        messages = self._cache.messages
        return messages[-1].end_time - messages[0].start_time

    def _end(self, message: Message) -> list[Message]:
        """An empty message."""
        if not message.flags & EOS:
            raise _Refused("it is empty and does not end the stream")
        if self._cache.messages:
            results = self._flush(message)
            self._cache.clear(message)
            return results
        self._reset()
        return [message]

    def _flush(self, message: Message) -> list[Message]:
        """A flag ends a batch that does not fill its window."""
        if not (self._rule.drop_remainder and self._rule.time_window > 0):
            return [self._full(message.flags)]
        self._reset()
        return [Message().inherit(message)] if message.flags & EOS else []

    def _full(self, flags: int) -> Message:
        dimension = self._rule.batch_dim
        result = self._cache.stack() if dimension < 0 else self._cache.join(dimension)
        result.flags |= flags
        last = None if flags & (EOS | SEG) else self._last
        self._reset()
        self._last = last
        return result

    def _reset(self, refused: Message | None = None) -> None:
        self._cache.clear(refused)
        self._last = None
