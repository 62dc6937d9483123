"""`pyflow` and `method`: plain functions and classes become the work of nodes."""

from __future__ import annotations

import functools
import inspect
import os
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softnpu.flow.bodies.function import call_with_context
from softnpu.flow.drawing import workspace
from softnpu.flow.drawing.nodes import FlowNode, add_methods
from softnpu.flow.drawing.points import FuncProcessPoint
from softnpu.flow.functions import work
from softnpu.flow.plan import FUNCTION_LOADER, Function

_METHOD_KEYS = ("num_returns", "stream_input", "choice_output")
_KEYS = (*_METHOD_KEYS, "resources", "env_hook_func", "visible_device_enable")
_RESERVED = ("fnode", "_fnode", "_df_from_class")
_RESOURCES = ("memory", "num_cpus", "num_npus")
MARK = "_df_method"  # what `method` leaves on a function


@dataclass
class Options:
    """The options of a decorator, and which body runs the code."""

    values: dict[str, Any] = field(default_factory=dict)
    loader: str = FUNCTION_LOADER
    on_device: bool = False
    extra: dict[str, Any] = field(default_factory=dict)  # more for the body; plain data

    @property
    def resources(self) -> dict[str, int]:
        """As asked for; checked by `check_options`."""
        return dict(self.values.get("resources") or {})


def check_options(decorator: str, values: dict[str, Any], keys: tuple[str, ...] = _KEYS) -> None:
    """TypeError for an option that is unknown or of the wrong kind."""
    unknown = sorted(set(values) - set(keys))
    if unknown:
        raise TypeError(f"{decorator} has no option {', '.join(unknown)}; it knows {', '.join(keys)}")
    _check_stream(values)
    resources = values.get("resources")
    if resources is not None:
        if not isinstance(resources, dict) or not set(resources) <= set(_RESOURCES):
            raise TypeError(f"resources is a dict with {', '.join(_RESOURCES)}, not {resources!r}")
        if not all(type(number) is int and number >= 0 for number in resources.values()):
            raise TypeError(f"the values of resources are numbers from 0: {resources!r}")
    for key in ("choice_output", "env_hook_func"):
        if values.get(key) is not None and not callable(values[key]):
            raise TypeError(f"{key} is a function, not {values[key]!r}")


def _check_stream(values: dict[str, Any]) -> None:
    if "stream_input" in values and values["stream_input"] != "Queue":
        raise TypeError(f'stream_input can only be "Queue", not {values["stream_input"]!r}')


def count_inputs(function: Callable[..., Any]) -> int:
    """Every parameter is an input, also one with a default."""
    return sum(name not in ("self", "cls") for name in inspect.signature(function).parameters)


def _check_plain(function: Callable[..., Any]) -> None:
    """Nothing awaits what `async def` gives: each call would fail with a coroutine that cannot be pickled."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__name__} is an async function; a node calls plain ones: "
            "use def, and asyncio.run(…) inside where something has to be awaited"
        )


def count_outputs(function: Callable[..., Any], num_returns: Any = None) -> int:
    """`num_returns`, else as many as the return annotation has type arguments, else 1."""
    _check_plain(function)
    annotation = inspect.signature(function).return_annotation
    annotated = 0 if isinstance(annotation, str) else len(typing.get_args(annotation))
    if num_returns is None:
        return annotated or 1
    name = getattr(function, "__name__", function)
    if type(num_returns) is not int or num_returns <= 0:
        raise AssertionError(f"num_returns of {name} is a positive int, not {num_returns!r}")
    if annotated and annotated != num_returns:
        raise AssertionError(
            f"{name}: num_returns is {num_returns}, its annotation {annotation} has {annotated} values"
        )
    return num_returns


def method(*args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a method of a decorated class as a function of its node."""
    if args:
        raise AssertionError("df.method is used with parentheses: @df.method() or @df.method(num_returns=2)")
    unknown = sorted(set(options) - set(_METHOD_KEYS))
    if unknown:
        raise AssertionError(f"df.method has no option {', '.join(unknown)}; it knows {', '.join(_METHOD_KEYS)}")
    check_options("df.method", options)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        count_outputs(function, options.get("num_returns"))
        setattr(function, MARK, options)
        return function

    return mark


def pyflow(*args: Any, **options: Any) -> Any:
    """Make a function or class the work of nodes: `@df.pyflow` or `@df.pyflow(option=…)`."""
    if len(args) > 1:
        raise TypeError("pyflow decorates one function or class")
    check_options("pyflow", options)
    if args:
        return decorate(args[0], Options(options))
    return functools.partial(decorate, options=Options(options))


def decorate(target: Any, options: Options) -> Any:
    """The decorated function or class; `npu_model` calls this with a body of its own."""
    if inspect.isclass(target):
        return _derive(target, options)
    if inspect.isfunction(target):
        return PyFunction(target, options)
    raise TypeError(f"a function or a class is decorated, not {target!r}")


def base_data(options: Options) -> dict[str, Any]:
    """What the body of any decorated code gets beside the code itself."""
    hook = options.values.get("env_hook_func")
    return {**work.baggage(), **options.extra, "hook": hook and work.code_by_value(hook, "env_hook_func")}


def make_node(point_source: Any, name: str, options: Options) -> tuple[FlowNode, FuncProcessPoint]:
    """A node `<name>_fnode` with a process point for the decorated code."""
    node_work: work.Work = point_source._flow_work()
    node = FlowNode(node_work.input_num, node_work.output_num, name=f"{name}_fnode")
    point = FuncProcessPoint(
        py_func=_WorkSource(node_work),
        name=f"{node.name}_pp",
        workspace_dir=os.path.join(".", workspace.folder_of(node.name)),
    )
    node.add_process_point(point)
    node.on_device = options.on_device
    return node, point


class _WorkSource:
    """Work that is already there."""

    def __init__(self, node_work: work.Work) -> None:
        self._work = node_work

    def _flow_work(self) -> work.Work:
        return self._work


class PyFunction:
    """A decorated function: `.fnode()` makes a node of it."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self.func_name = function.__name__
        self.input_num = count_inputs(function)
        self.output_num = count_outputs(function, options.values.get("num_returns"))

    def fnode(self, *_args: Any, **_kwargs: Any) -> FlowNode:
        """A new node; arguments mean nothing for a function."""
        return make_node(self, self.func_name, self._options)[0]

    def _flow_work(self) -> work.Work:
        values = self._options.values
        function = Function(
            self.func_name, tuple(range(self.input_num)), tuple(range(self.output_num)), "stream_input" in values
        )
        content = (self._function, values.get("choice_output"))
        data = {"object": work.code(content, f"The function {self.func_name}"), **base_data(self._options)}
        return work.Work(
            self.func_name,
            (function,),
            self._options.loader,
            data,
            self._options.resources,
            bool(values.get("visible_device_enable")),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> int:
        """The engine's entry `(run_context, input_flow_msgs)`: messages in, outputs through the context. Not for plain values."""
        if kwargs or len(args) != 2 or not hasattr(args[0], "set_output"):
            name = self.func_name
            raise TypeError(
                f"{name} is decorated and works in a node: make one with {name}.fnode(); "
                f"the plain function is {name}.__wrapped__"
            )
        return call_with_context(
            self._function, self._options.values.get("choice_output"), self.output_num, args[0], args[1]
        )


# ---- classes -------------------------------------------------------------------------------------------------------------


def _derive(cls: type, options: Options) -> type:
    for name in _RESERVED:
        if hasattr(cls, name):
            raise TypeError(f"{cls.__name__} defines {name}, which the decorated class needs for itself")
    methods(cls, options)
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__init__": _refuse,
        "fnode": classmethod(_class_fnode),
        "_fnode": classmethod(_class_fnode),
        "_flow_work": classmethod(_class_work),
        "_df_from_class": cls,
        "_df_options": options,
        "_df_reordered": False,
    }
    return type(cls)(cls.__name__, (cls,), body)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> None:
    name = type(self).__name__
    if type(self)._df_reordered:  # only passing through on the way to the bases
        following = type(self).__mro__[3]
        following.__init__(self, *args, **kwargs)  # type: ignore[misc]
        return
    raise TypeError(f"{name} is decorated: it is constructed in its node; make one with {name}.fnode(…)")


def methods(cls: type, options: Options) -> list[tuple[Function, Any]]:
    """The marked methods in the order of their inputs, each with its choice_output."""
    marked: list[tuple[Function, Any]] = []
    first_input = first_output = 0
    for name in dir(cls):
        function = None if name.startswith("__") else getattr(cls, name, None)
        marks = getattr(function, MARK, None)
        if marks is None or function is None:
            continue
        inputs, outputs = count_inputs(function), count_outputs(function, marks.get("num_returns"))
        stream = "stream_input" in marks or "stream_input" in options.values
        ports = tuple(range(first_input, first_input + inputs)), tuple(range(first_output, first_output + outputs))
        marked.append((Function(name, *ports, stream), marks.get("choice_output")))
        first_input, first_output = first_input + inputs, first_output + outputs
    return marked


class _Instance:
    """A decorated class and the arguments of one `fnode` call."""

    def __init__(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._cls, self._args, self._kwargs = cls, args, kwargs

    def _flow_work(self) -> work.Work:
        options: Options = self._cls._df_options
        marked = methods(self._cls, options)
        name = self._cls.__name__
        if not marked:
            raise TypeError(f"{name} has no function: mark at least one method with @df.method()")
        content = (self._cls, self._args, self._kwargs, [choice for _, choice in marked])
        data = {"object": work.code(content, f"The class {name}"), **base_data(options)}
        visible = bool(options.values.get("visible_device_enable"))
        functions = tuple(function for function, _ in marked)
        return work.Work(name, functions, options.loader, data, options.resources, visible)


def _class_work(cls: Any) -> work.Work:
    return _Instance(cls, (), {})._flow_work()


def _class_fnode(cls: Any, *args: Any, **kwargs: Any) -> FlowNode:
    """A node; the arguments go to the constructor, in the node's process."""
    node, point = make_node(_Instance(cls, args, kwargs), cls.__name__, cls._df_options)
    add_methods(node, point.functions)
    return node
