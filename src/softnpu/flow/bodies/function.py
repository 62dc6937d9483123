"""The body of `pyflow` functions and classes: plain values in, plain values out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.bodies.common import Call, inside, queues_of, source_of
from softnpu.flow.body import Inlet, InstanceInfo, Outlet
from softnpu.flow.errors import DfAbortException
from softnpu.flow.functions import work
from softnpu.flow.functions.flowmsg import FlowMsg, FlowMsgQueue, value_of
from softnpu.flow.functions.running import current
from softnpu.flow.functions.wrappers import report
from softnpu.flow.message import RAW_DATA, TORCH_TENSOR, Message
from softnpu.flow.plan import Function
from softnpu.flow.values.codec import alone, decode_object, encode_object, encode_tensor
from softnpu.flow.values.register import MsgTypeRegister, msg_type_register, pickle_loads
from softnpu.flow.values.tensor import Tensor

Target = Callable[..., Any]
Choice = Callable[[Any], Any] | None


class FunctionBody:
    """One object, constructed in the worker; its functions get decoded values."""

    takes_failures = False
    takes_exceptions = False

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._register = MsgTypeRegister()
        self._instance: InstanceInfo | None = None
        self._calls: list[Call] = []
        self._streams: list[Callable[[Sequence[FlowMsgQueue], Outlet], int]] = []
        self._queues: dict[int, list[FlowMsgQueue]] = {}

    def start(self, instance: InstanceInfo) -> None:
        """Path, register, hook, object, constructor: in this order, so that a hook comes before any import of the object."""
        data = self._data
        work.unpack_path(data["path"])
        self._register = MsgTypeRegister.loads(data["register"])
        self._instance = instance
        with inside(instance):
            if data["hook"] is not None:
                pickle_loads(data["hook"])()
            targets = load_targets(pickle_loads(data["object"]), data["functions"])
        for function, (target, choice) in zip(data["functions"], targets, strict=True):
            outputs = [data["output_map"][index] for index in function.outputs]
            send = _sender(function.name, outputs, choice, self._register)
            self._calls.append(_caller(function.name, target, send, self._register))
            self._streams.append(_streamer(function.name, target, send))

    def call(self, function: int, messages: Sequence[Message], out: Outlet) -> int:
        """One call with one value per input."""
        before = current.instance
        current.instance = self._instance
        try:
            return self._calls[function](messages, out)
        finally:
            current.instance = before

    def stream(self, function: int, inlets: Sequence[Inlet], out: Outlet) -> int:
        """One entry of a stream function."""
        before = current.instance
        current.instance = self._instance
        try:
            return self._streams[function](queues_of(self._queues, function, inlets, self._register), out)
        finally:
            current.instance = before

    def notice(self, trans_id: int, code: int, context_id: int) -> None:
        """Plain functions cannot hear of exceptions (`takes_exceptions`)."""

    def close(self) -> None:
        """Let the object go."""
        self._calls.clear()
        self._streams.clear()


def load(data: dict[str, Any]) -> FunctionBody:
    """The loader that specs name."""
    return FunctionBody(data)


def load_targets(content: Any, functions: Sequence[Function]) -> list[tuple[Target, Choice]]:
    """The callables of a decorated function or class, each with its choice_output."""
    if len(content) == 2:
        return [content]
    cls, args, kwargs, choices = content
    instance = construct(cls, args, kwargs)
    return [(getattr(instance, function.name), choice) for function, choice in zip(functions, choices, strict=True)]


def construct(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An object of a decorated class, past the guard that keeps programs from making one."""
    original = cls._df_from_class
    if _names_itself(original):
        cls = _reordered(cls, original)
    instance = cls.__new__(cls, *args, **kwargs)
    original.__init__(instance, *args, **kwargs)
    return instance


def _names_itself(original: type) -> bool:
    """Whether its methods say `super(Name, self)` or the like: by then the name means the decorated class."""
    functions = [each for each in vars(original).values() if inspect.isfunction(each)]
    return any(original.__name__ in each.__code__.co_names for each in functions)


def _reordered(derived: type, original: type) -> Any:
    """A class in which the decorated one comes after the original: `super(Name, self)` goes on to the bases, not in circles."""

    def mro(_cls: type) -> list[type]:
        return [_cls, original, derived, *original.__mro__[1:]] if _cls.__bases__ == (derived,) else type.mro(_cls)

    meta = type("Meta", (type(derived),), {"mro": mro})
    return meta(derived.__name__, (derived,), {"__module__": derived.__module__, "_df_reordered": True})


Send = Callable[[Any, Message | None, Outlet, bool], int]  # result, envelope, where to, nobody else holds the result


def _value(message: Message, register: MsgTypeRegister) -> Any:
    """What a message carries; nothing else holds its memory afterwards, so that a result may be that very memory."""
    value = decode_object(message, register)
    message.release()
    return value


def _caller(name: str, target: Target, send: Send, register: MsgTypeRegister) -> Call:
    """The hot path: decode, call, send."""

    def call(messages: Sequence[Message], out: Outlet) -> int:
        try:
            for message in messages:
                if RAW_DATA < message.msg_type < TORCH_TENSOR:
                    log.error("%s: message type %d is not for functions", name, message.msg_type)
                    return codes.FUNC_FAILED
            source = messages[0] if messages else None
            if source is not None and not source.payload.form:
                source = source_of(messages)
            result = target(*[_value(message, register) for message in messages])
            owned = alone(result)  # before anything else refers to it
            return send(result, source, out, owned)
        except DfAbortException:
            return 0
        except Exception:
            report(name)
            return codes.FUNC_FAILED

    return call


def _streamer(name: str, target: Target, send: Send) -> Callable[[Sequence[FlowMsgQueue], Outlet], int]:
    def enter(queues: Sequence[FlowMsgQueue], out: Outlet) -> int:
        try:
            return send(target(*queues), None, out, False)
        except DfAbortException:
            return 0
        except Exception:
            report(name)
            return codes.FUNC_FAILED

    return enter


def _message(value: Any, source: Message | None, register: MsgTypeRegister) -> Message:
    if type(value) is Tensor:
        message = Message(encode_tensor(value._array))
    else:
        kind, payload = encode_object(value, register)
        message = Message(payload, kind)
    return message if source is None else message.inherit(source)


def _nothing() -> None:
    """For an outlet that holds nothing back."""


def _sender(name: str, outputs: Sequence[int], choice: Choice, register: MsgTypeRegister) -> Send:
    """What becomes of a result, decided once per function."""
    if len(outputs) == 1:
        return _sends_one(outputs[0], choice, register)
    return _sends_many(name, outputs, choice, register)


def _sends_one(output: int, choice: Choice, register: MsgTypeRegister) -> Send:
    def send(value: Any, source: Message | None, out: Outlet, owned: bool) -> int:
        if type(value) is GeneratorType:
            hurry = getattr(out, "hurry", _nothing)
            for each in value:
                send(each, source, out, False)
                hurry()
        elif choice is None or choice(value):
            message = _message(value, source, register)
            message.payload.owned = owned
            out.send(output, message)
        return 0

    return send


def _wrong_length(name: str, result: Any, count: int) -> int:
    got = f"a tuple of {len(result)}" if type(result) is tuple else f"a {type(result).__name__}"
    log.error("%s has %d outputs: it has to return a tuple of %d values, not %s", name, count, count, got)
    return codes.FUNC_FAILED


def _sends_many(name: str, outputs: Sequence[int], choice: Choice, register: MsgTypeRegister) -> Send:
    def send(result: Any, source: Message | None, out: Outlet, owned: bool) -> int:
        if type(result) is GeneratorType:
            hurry = getattr(out, "hurry", _nothing)
            for each in result:
                code = send(each, source, out, False)
                if code:
                    return code
                hurry()
            return 0
        if type(result) is not tuple or len(result) != len(outputs):
            return _wrong_length(name, result, len(outputs))
        for output, value in zip(outputs, result, strict=True):
            if choice is None or choice(value):
                out.send(output, _message(value, source, register))
        return 0

    return send


def call_with_context(
    target: Target, choice: Choice, output_num: int, run_context: Any, messages: Sequence[FlowMsg]
) -> int:
    """A decorated function called with a context, as the layer below of the real one does."""

    class Door:
        def send(self, output: int, message: Message) -> None:
            run_context.set_output(output, FlowMsg(message))

        def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
            run_context.raise_exception(code, context_id)

    name = getattr(target, "__name__", "function")
    send = _sender(name, range(output_num), choice, msg_type_register)
    try:
        values = [value_of(message._message, msg_type_register) for message in messages]
        return send(target(*values), source_of([message._message for message in messages]), Door(), False)
    except DfAbortException:
        return 0
    except Exception:
        report(name)
        return codes.FUNC_FAILED
