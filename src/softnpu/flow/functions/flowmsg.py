"""FlowMsg and FlowMsgQueue: messages as functions inside a node see them."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np

from softnpu.flow import codes, log
from softnpu.flow.body import Inlet
from softnpu.flow.errors import DfException
from softnpu.flow.message import ARRAY, NULL, TENSOR, Message
from softnpu.flow.values import codec
from softnpu.flow.values.register import MsgTypeRegister
from softnpu.flow.values.tensor import Tensor, wrap


class FlowMsg:
    """One message: its envelope can be read and written, its data looked into."""

    __slots__ = ("_message", "_tensor")

    def __init__(self, message: Message, tensor: Tensor | None = None) -> None:
        self._message = message
        self._tensor = tensor

    def get_msg_type(self) -> int:
        """0 tensor, 1 raw bytes, 1023 torch tensor, from 1024 the user's own, 65535 a pickled object."""
        return self._message.msg_type

    def set_msg_type(self, msg_type: int) -> None:
        """Say what the data is."""
        self._message.msg_type = msg_type

    def get_ret_code(self) -> int:
        """0, or why there is no good data."""
        return self._message.ret_code

    def set_ret_code(self, ret_code: int) -> None:
        """Mark the message as failed; the user's own codes are 9900000 to 9999999."""
        if ret_code and not codes.FUNC_USER_FIRST <= ret_code <= codes.FUNC_USER_LAST:
            log.warning(
                "ret_code %s is outside the user's range %s to %s",
                ret_code,
                codes.FUNC_USER_FIRST,
                codes.FUNC_USER_LAST,
            )
        self._message.ret_code = ret_code

    def get_start_time(self) -> int:
        """Begin of the span that the data covers."""
        return self._message.start_time

    def set_start_time(self, start_time: int) -> None:
        """Begin of the span that the data covers."""
        self._message.start_time = start_time

    def get_end_time(self) -> int:
        """End of the span that the data covers."""
        return self._message.end_time

    def set_end_time(self, end_time: int) -> None:
        """End of the span that the data covers."""
        self._message.end_time = end_time

    def get_flow_flags(self) -> int:
        """Bits EOS and SEG."""
        return self._message.flags

    def set_flow_flags(self, flow_flags: int) -> None:
        """Bits EOS and SEG."""
        self._message.flags = int(flow_flags)

    def get_transaction_id(self) -> int:
        """Which feed the message derives from."""
        return self._message.trans_id

    def set_transaction_id(self, transaction_id: int) -> None:
        """Choose the transaction; 0 lets the engine do it."""
        self._message.trans_id = transaction_id
        self._message.user_trans = transaction_id != 0

    def set_route_label(self, route_label: int) -> None:
        """Messages with the same label reach the same instance of the next node; 0 is no label."""
        self._message.route_label = route_label

    def get_tensor(self) -> Tensor | None:
        """The tensor; None when the message carries none."""
        if self._tensor is None:
            form = self._message.payload.form
            if form in (TENSOR, ARRAY):
                self._tensor = wrap(codec.decode_tensor(self._message))
            elif form != NULL:
                log.error("get_tensor: the message (type %s) holds no tensor", self._message.msg_type)
        return self._tensor

    def get_raw_data(self) -> memoryview:
        """The bytes of the data."""
        if self._tensor is not None:
            return self._tensor._array.reshape(-1).view(np.uint8).data
        parts = [memoryview(chunk).cast("B") for chunk in self._message.payload.chunks]
        data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return data.toreadonly() if self._message.shared else data

    def outgoing(self) -> Message:
        """A message to send: the same object may be sent again, so it gets an envelope of its own."""
        message = self._message.copy()
        if self._tensor is not None and message.payload.form in (NULL, TENSOR):
            message.payload = codec.encode_tensor(self._tensor._array)
        return message

    def __repr__(self) -> str:
        return (
            f"FlowMsg(msg_type={self.get_msg_type()}, ret_code={self.get_ret_code()}, start_time={self.get_start_time()}, "
            f"end_time={self.get_end_time()}, flow_flags={self.get_flow_flags()})"
        )


class FlowMsgQueue(queue.Queue[Any]):
    """One input of a stream function. Timeouts are in milliseconds, unlike those of its base class."""

    def __init__(self, inlet: Inlet, register: MsgTypeRegister) -> None:
        self._inlet = inlet
        self._register = register
        self.maxsize = inlet.maxsize

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next value; `queue.Empty` when none came in time, DfAbortException when the graph ends."""
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number of milliseconds")
        if not block:
            seconds: float | None = 0
        else:
            seconds = None if timeout is None else timeout / 1000
        return value_of(self._inlet.take(seconds), self._register)

    def get_nowait(self) -> Any:
        """The next value if there is one, else `queue.Empty`."""
        return self.get(block=False)

    def qsize(self) -> int:
        """Values that wait."""
        return self._inlet.qsize()

    def empty(self) -> bool:
        """Whether nothing waits."""
        return self._inlet.qsize() == 0

    def full(self) -> bool:
        """Whether producers have to wait."""
        return 0 < self.maxsize <= self._inlet.qsize()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Not for functions: the queue is an input."""
        raise NotImplementedError("an input queue is filled by the graph, not with put")

    def put_nowait(self, item: Any) -> None:
        """Not for functions: the queue is an input."""
        raise NotImplementedError("an input queue is filled by the graph, not with put_nowait")

    def task_done(self) -> None:
        """Tasks are not counted."""
        raise NotImplementedError("an input queue does not count tasks")

    def join(self) -> None:
        """Tasks are not counted."""
        raise NotImplementedError("an input queue does not count tasks")


def value_of(message: Message, register: MsgTypeRegister) -> Any:
    """What a function gets for a message: a Tensor, the object, a memoryview of an unknown type, or None."""
    if message.ret_code:
        raise DfException(f"The message of transaction {message.trans_id} failed before.", message.ret_code)
    if 1 < message.msg_type < 1023:
        raise DfException(f"Message type {message.msg_type} is not for functions.", codes.FUNC_FAILED)
    return codec.decode_object(message, register)
