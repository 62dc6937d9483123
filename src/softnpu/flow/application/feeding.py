"""From what a program feeds to messages, and from messages to what it fetches. Mistakes are codes, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.application import info
from softnpu.flow.application.info import FlowInfo
from softnpu.flow.drawing.nodes import FlowData
from softnpu.flow.errors import DfException
from softnpu.flow.message import EOS, PICKLED, RAW_DATA, TENSOR_DATA, TORCH_TENSOR, Message
from softnpu.flow.values import codec, torch_door
from softnpu.flow.values.register import msg_type_register
from softnpu.flow.values.tensor import Tensor, wrap

Items = list[tuple[int, Message]]
WITH_DATA = (codes.SUCCESS, codes.SUBHEALTHY)


class Refused(Exception):
    """The arguments are not usable; the text is for the log, the code for the program."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def seconds(timeout: int) -> float | None:
    """Milliseconds, -1 for ever, as the engines take them."""
    if not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of milliseconds or -1, not {timeout!r}")
    if timeout != int(timeout):  # somebody who thinks of seconds
        raise TypeError(f"timeout is in whole milliseconds, not {timeout}; {timeout} seconds are {timeout * 1000:g}")
    if timeout < -1:
        raise Refused(codes.FAILED, f"timeout is -1 (for ever) or from 0 milliseconds, not {timeout}")
    return None if timeout == -1 else timeout / 1000


# ---- feeding -------------------------------------------------------------------------------------------------------------


def chosen(
    inputs: Sequence[FlowData], feed_dict: Mapping[FlowData, Any], partial: bool
) -> list[tuple[int, FlowData, Any]]:
    """The inputs of the graph that are in the dict; others in it mean nothing here."""
    if not isinstance(feed_dict, Mapping):
        raise Refused(codes.PARAM_INVALID, f"feed_dict is a dict of FlowData to values, not {type(feed_dict).__name__}")
    fed = [(index, data, feed_dict[data]) for index, data in enumerate(inputs) if data in feed_dict]
    if not inputs:
        raise Refused(codes.PARAM_INVALID, "the graph has no input, so nothing starts it; draw it from a df.FlowData")
    if not fed:
        raise Refused(codes.PARAM_INVALID, f"no input of the graph is fed; it has {[data.name for data in inputs]}")
    if len(fed) < len(inputs) and not partial:
        missing = [data.name for data in inputs if data not in feed_dict]
        raise Refused(codes.PARAM_INVALID, f"inputs {missing} are not fed; feed them too, or pass partial_inputs=True")
    return fed


def tensor_items(
    inputs: Sequence[FlowData], feed_dict: Mapping[FlowData, Any] | None, flow_info: FlowInfo | None, partial: bool
) -> Items:
    """Messages of `feed_data`: everything becomes a tensor, as the schemas say."""
    if flow_info is not None and not isinstance(flow_info, FlowInfo):
        raise Refused(codes.PARAM_INVALID, f"flow_info is a df.FlowInfo, not {type(flow_info).__name__}")
    if flow_info is not None and flow_info._problem():
        raise Refused(codes.PARAM_INVALID, flow_info._problem())
    if not feed_dict:
        if flow_info is None or not flow_info.flow_flags & EOS:
            raise Refused(
                codes.PARAM_INVALID, "nothing is fed; only a FlowInfo with DATA_FLOW_FLAG_EOS goes without data"
            )
        items = [(index, Message()) for index in range(len(inputs))]
    else:
        items = [(index, _tensor_message(data, value)) for index, data, value in chosen(inputs, feed_dict, partial)]
    if flow_info is not None:
        if flow_info.transaction_id == codes.MAX_U64:
            raise Refused(codes.PARAM_INVALID, f"transaction_id {flow_info.transaction_id} is not usable")
        for _, message in items:
            flow_info.write(message)
    return items


def _tensor_message(data: FlowData, value: Any) -> Message:
    schema = data._schema
    try:
        if not isinstance(value, Tensor) or (schema is not None and value._tensor_desc != schema):
            value = Tensor(value, tensor_desc=schema)
    except DfException as problem:
        raise Refused(problem.error_code, f"input {data.name}: {problem.message}") from problem
    return Message(codec.encode_tensor(value._array))


def object_items(inputs: Sequence[FlowData], feed_dict: Mapping[FlowData, Any], partial: bool) -> Items:
    """Messages of `feed`: tensors stay tensors, everything else travels as the object it is."""
    return [(index, _object_message(data, value)) for index, data, value in chosen(inputs, feed_dict, partial)]


def _object_message(data: FlowData, value: Any) -> Message:
    if isinstance(value, Tensor):
        if data._schema is not None and value._tensor_desc != data._schema:
            raise Refused(
                codes.PARAM_INVALID,
                f"input {data.name} is described as {data._schema}, but {value._tensor_desc} is fed",
            )
        return Message(codec.encode_tensor(value._array))
    kind, payload = codec.encode_object(value, msg_type_register)
    return Message(payload, kind)


# ---- fetching ------------------------------------------------------------------------------------------------------------


def outputs_of(indexes: Sequence[int] | None, mapping: Sequence[int]) -> list[int]:
    """The engine's output indexes for those of the program."""
    if isinstance(indexes, int):  # fetch(0) would be all outputs, fetch(5000) was meant as a timeout
        raise TypeError(f"indexes is a list of output numbers, not {indexes}; write [{indexes}], or timeout={indexes}")
    if not indexes:
        return list(mapping)
    count = len(mapping)
    for index in indexes:
        if not isinstance(index, int):
            raise TypeError(f"an output index is an int, not {type(index).__name__}")
        if not -count <= index < count:
            raise Refused(codes.PARAM_INVALID, f"the graph has {count} outputs; there is no output {index}")
    wanted = [mapping[index] for index in indexes]
    if len(set(wanted)) != len(wanted):
        raise Refused(codes.PARAM_INVALID, f"an output is asked for twice: {list(indexes)}")
    return wanted


def tensors_of(messages: Sequence[Message], envelope: Message | None, code: int) -> tuple[list[Tensor], FlowInfo, int]:
    """What `fetch_data` gives: tensors (null ones are left out), the FlowInfo, the code."""
    about = info.of(envelope if envelope is not None else messages[0] if messages else None)
    if code in WITH_DATA:
        code = next((message.ret_code for message in messages if message.ret_code), code)
    if code not in WITH_DATA:
        return [], about, code
    tensors = []
    for message in messages:
        if message.null:
            continue
        if message.msg_type == TORCH_TENSOR:
            tensors.append(_from_torch(message))
            continue
        if message.msg_type != TENSOR_DATA:
            log.error(
                "fetch_data: the output is an object (message type %d), not a tensor; use fetch()", message.msg_type
            )
            return [], about, codes.PARAM_INVALID
        tensors.append(codec.decode_object(message, msg_type_register))
    return tensors, about, code


def _from_torch(message: Message) -> Tensor:
    """The result of an npu_model is a tensor too: without this nobody could read its FlowInfo."""
    return wrap(torch_door.as_array(message).copy())


def objects_of(messages: Sequence[Message], _: Message | None, code: int) -> tuple[list[Any], int]:
    """What `fetch` gives: the objects and the code."""
    for message in messages:
        reason = _refusal(message)
        if reason:
            log.error("fetch: %s", reason)
            return [], codes.PARAM_INVALID
    if code not in WITH_DATA:
        return [], code
    return [codec.decode_object(message, msg_type_register) for message in messages], code


def _refusal(message: Message) -> str:
    kind = message.msg_type
    if message.ret_code:
        return f"transaction {message.trans_id} failed with code {message.ret_code}; see the lines before"
    if message.null or kind in (TENSOR_DATA, TORCH_TENSOR, PICKLED):
        return ""
    if RAW_DATA <= kind < TORCH_TENSOR:
        return f"a message of type {kind} has no object; functions that send raw bytes need a msg_type_register row"
    return (
        "" if msg_type_register.registered(kind) else f"message type {kind} is not registered: see df.msg_type_register"
    )
