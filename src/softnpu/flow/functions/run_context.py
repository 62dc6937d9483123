"""What low-level functions inside a node work with: the context of a call, and balance configurations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softnpu.flow import codes, log
from softnpu.flow.body import InstanceInfo, Outlet
from softnpu.flow.errors import DfException
from softnpu.flow.functions.flowmsg import FlowMsg as FlowMsg
from softnpu.flow.functions.flowmsg import FlowMsgQueue as FlowMsgQueue
from softnpu.flow.functions.funclog import FlowFuncLogger as FlowFuncLogger
from softnpu.flow.functions.funclog import logger as logger
from softnpu.flow.functions.params import PyMetaParams as PyMetaParams
from softnpu.flow.functions.wrappers import init_wrapper as init_wrapper
from softnpu.flow.functions.wrappers import proc_wrapper as proc_wrapper
from softnpu.flow.message import RAW, RAW_DATA, USER_DATA_SIZE, Message, Payload
from softnpu.flow.rules import route
from softnpu.flow.values import tensor
from softnpu.flow.values.tensor import Tensor

if TYPE_CHECKING:
    from softnpu.flow.bodies.closure import Closures


class AffinityPolicy(enum.IntEnum):
    """Which parts of a matrix reach the same instance."""

    NO_AFFINITY = route.NO_AFFINITY
    ROW_AFFINITY = route.ROW_AFFINITY
    COL_AFFINITY = route.COL_AFFINITY


class BalanceConfig:
    """Positions of messages in a matrix, by which they are spread over instances."""

    def __init__(
        self, row_num: int, col_num: int, affinity_policy: AffinityPolicy = AffinityPolicy.NO_AFFINITY
    ) -> None:
        self.row_num = row_num
        self.col_num = col_num
        self.affinity_policy = affinity_policy
        self.data_pos: list[tuple[int, int]] = []

    def set_data_pos(self, data_pos: Sequence[tuple[int, int]]) -> None:
        """(row, column) of each message."""
        self.data_pos = [(row, col) for row, col in data_pos]

    def get_inner_config(self) -> BalanceConfig:
        """Itself: there is no other layer below."""
        return self


class MetaRunContext:
    """One call: where its messages come from and its outputs go."""

    def __init__(
        self,
        instance: InstanceInfo,
        out: Outlet,
        outputs: dict[int, int],
        source: Message | None,
        closures: Closures | None = None,
        exception: tuple[int, int] | None = None,
        stream: bool = False,
    ) -> None:
        self._instance = instance
        self._out = out
        self._outputs = outputs  # the function's own → the node's
        self._source = source
        self._closures = closures
        self._exception = exception
        self._stream = stream

    def _fresh(self, payload: Payload | None = None, msg_type: int = 0) -> Message:
        message = Message(msg_type=msg_type) if payload is None else Message(payload, msg_type)
        return message if self._source is None else message.inherit(self._source)

    def alloc_tensor_msg(self, shape: Sequence[int], dtype: Any, align: int = 64) -> FlowMsg:
        """A message with a tensor to be filled."""
        return FlowMsg(self._fresh(), tensor.alloc_tensor(shape, dtype, align))

    def alloc_raw_data_msg(self, size: int, align: int = 64) -> FlowMsg:
        """A message with bytes to be filled."""
        room = tensor.allocate([size], np.uint8, align)
        return FlowMsg(self._fresh(Payload(RAW, b"", (room,)), RAW_DATA))

    def alloc_empty_data_msg(self) -> FlowMsg:
        """A message without data."""
        return FlowMsg(self._fresh())

    def to_flow_msg(self, tensor: Tensor) -> FlowMsg:
        """A message around a tensor."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"to_flow_msg takes a df.Tensor, not {type(tensor).__name__}")
        return FlowMsg(self._fresh(), tensor)

    def set_output(self, index: int, output: Any, balance_config: BalanceConfig | None = None) -> int:
        """Send a message (or an array) from an output: 0, or 164000. Never blocks."""
        return 0 if output is None else self.set_multi_outputs(index, [output], balance_config)

    def set_multi_outputs(self, index: int, outputs: Sequence[Any], balance_config: BalanceConfig | None = None) -> int:
        """Send several messages from one output."""
        messages = [self._outgoing(output) for output in outputs if output is not None]
        target = self._outputs.get(index)
        if target is None:
            log.error(
                "node %s: %r is none of the outputs %s of this function",
                self._instance.node,
                index,
                list(self._outputs),
            )
            return codes.FUNC_PARAM_INVALID
        if balance_config is not None:
            config = balance_config
            code, reason = route.balance(
                messages,
                self._instance.balance,
                config.row_num,
                config.col_num,
                int(config.affinity_policy),
                config.data_pos,
            )
            if code:
                log.error("node %s: %s", self._instance.node, reason)
                return code
        for message in messages:
            self._send(target, message)
        return codes.SUCCESS

    def _outgoing(self, output: Any) -> Message:
        if isinstance(output, FlowMsg):
            return output.outgoing()
        if isinstance(output, np.ndarray):
            return FlowMsg(self._fresh(), Tensor(output)).outgoing()
        raise TypeError(f"an output is a FlowMsg or a numpy array, not {type(output).__name__}")

    def _send(self, target: int, message: Message) -> None:
        if not message.trans_id and self._source is not None:
            message.trans_id = self._source.trans_id
        self._out.send(target, message)

    def run_flow_model(self, model_key: str, input_msgs: Sequence[Any], timeout: int) -> tuple[int, list[FlowMsg]]:
        """Run an invoked closure: (0, its outputs), or (564000, []) for whatever failed. `timeout` in ms, -1 for ever."""
        if self._closures is None:
            log.error(
                "node %s has no closure %r: see FuncProcessPoint.add_invoked_closure", self._instance.node, model_key
            )
            return codes.FUNC_FAILED, []
        messages = [self._outgoing(each) for each in input_msgs]
        code, results = self._closures.run(model_key, messages, timeout)
        return code, [FlowMsg(message) for message in results]

    def get_user_data(self, size: int, offset: int = 0) -> bytearray:
        """Bytes that the application put into FlowInfo; 64 zeros for a part that is not inside."""
        if size <= 0 or offset < 0 or offset + size > USER_DATA_SIZE:
            log.error("get_user_data: %s bytes at %s are not inside the %s bytes", size, offset, USER_DATA_SIZE)
            return bytearray(USER_DATA_SIZE)
        data = self._source.user_data if self._source is not None else b""
        return bytearray(data.ljust(USER_DATA_SIZE, b"\0")[offset : offset + size])

    def raise_exception(self, exception_code: int, user_context_id: int) -> None:
        """End this transaction in the whole graph; `fetch_data` then answers 345103."""
        if not self._instance.catch:
            raise DfException(
                f"raise_exception in node {self._instance.node}: call set_exception_catch(True) on the graph before its first feed.",
                codes.FUNC_FAILED,
            )
        if self._stream or self._source is None:
            raise DfException(
                "raise_exception needs a transaction; a stream function has none.", codes.FUNC_NOT_SUPPORT
            )
        self._out.raise_exception(exception_code, user_context_id, self._source.trans_id)

    def get_exception(self) -> tuple[bool, int, int]:
        """(True, code, context id) once, when another node raised; (False, 0, 0) otherwise."""
        exception, self._exception = self._exception, None
        return (False, 0, 0) if exception is None else (True, *exception)
