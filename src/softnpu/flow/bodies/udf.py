"""The body of low-level UDF classes: messages and a run context."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.bodies.closure import Closures
from softnpu.flow.bodies.common import inside, queues_of, source_of
from softnpu.flow.body import Inlet, InstanceInfo, Outlet
from softnpu.flow.errors import DfException
from softnpu.flow.functions import run_context, work
from softnpu.flow.functions.flowmsg import FlowMsg, FlowMsgQueue
from softnpu.flow.message import Message
from softnpu.flow.plan import Function
from softnpu.flow.values.register import MsgTypeRegister, pickle_loads


class _Notice(threading.local):
    """An exception of another node, between `notice` and the call that tells it."""

    exception: tuple[int, int] | None = None


class UdfBody:
    """One object of the user's class, made without arguments in the worker."""

    takes_failures = True
    takes_exceptions = True

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._functions: Sequence[Function] = data["functions"]
        self._maps = [{index: data["output_map"][index] for index in each.outputs} for each in self._functions]
        self._register = MsgTypeRegister()
        self._instance = InstanceInfo("", 0, 0)
        self._targets: list[Callable[..., Any]] = []
        self._queues: dict[int, list[FlowMsgQueue]] = {}
        self._closures: Any = None
        self._notice = _Notice()

    def start(self, instance: InstanceInfo) -> None:
        """Load the class, make the object, let it initialise itself."""
        data = self._data
        work.unpack_path(data["path"])
        self._register = MsgTypeRegister.loads(data["register"])
        self._instance = instance
        if data["closures"]:
            self._closures = Closures(data["closures"])
            self._closures.start(instance)
        with inside(instance):
            user_object = _load_class(data, self._functions)()
            for function in self._functions:
                target = getattr(user_object, function.name, None)
                if target is None:
                    raise DfException(
                        f"{type(user_object).__name__} has no function {function.name}.", codes.FUNC_FAILED
                    )
                self._targets.append(target)
            initialise = getattr(user_object, "init_flow_func", None)
            code = initialise(run_context.PyMetaParams(instance)) if initialise is not None else 0
        if type(code) is not int or code:
            raise DfException(
                f"init_flow_func of node {instance.node} returned {code!r}; it has to return 0.",
                code or codes.FUNC_FAILED,
            )

    def call(self, function: int, messages: Sequence[Message], out: Outlet) -> int:
        """One call; without messages it tells of an exception in another node."""
        exception = None
        if not messages:
            exception, self._notice.exception = self._notice.exception, None
        context = run_context.MetaRunContext(
            self._instance, out, self._maps[function], source_of(messages), self._closures, exception
        )
        return self._run(function, context, [FlowMsg(message) for message in messages])

    def stream(self, function: int, inlets: Sequence[Inlet], out: Outlet) -> int:
        """One entry of a stream function, which gets queues in the place of messages."""
        context = run_context.MetaRunContext(
            self._instance, out, self._maps[function], None, self._closures, stream=True
        )
        return self._run(function, context, queues_of(self._queues, function, inlets, self._register))

    def _run(self, function: int, context: run_context.MetaRunContext, inputs: Sequence[Any]) -> int:
        with inside(self._instance):
            code = self._targets[function](context, inputs)
        if isinstance(code, int):
            return int(code)
        log.error("%s returned %r; it has to return 0 or an error code", self._functions[function].name, code)
        return codes.FUNC_FAILED

    def notice(self, trans_id: int, code: int, context_id: int) -> None:
        """The next call on this thread tells the function."""
        self._notice.exception = code, context_id

    def close(self) -> None:
        """Let the object and its closures go."""
        self._targets.clear()
        if self._closures is not None:
            self._closures.close()


def load(data: dict[str, Any]) -> UdfBody:
    """The loader that specs name."""
    return UdfBody(data)


def _load_class(data: dict[str, Any], functions: Sequence[Function]) -> Any:
    """The user's class: pickled, or the one in the source of a project that has all the functions."""
    if "object" in data:
        return pickle_loads(data["object"])
    module = types.ModuleType(data["module"])
    module.__file__ = data["file"]
    sys.modules[module.__name__] = module
    exec(compile(data["source"], data["file"], "exec"), module.__dict__)
    names = [function.name for function in functions]
    for value in list(vars(module).values()):
        if (
            isinstance(value, type)
            and value.__module__ == module.__name__
            and all(hasattr(value, name) for name in names)
        ):
            return value
    raise DfException(f"{data['file']} has no class with the functions {', '.join(names)}.", codes.FUNC_FAILED)
