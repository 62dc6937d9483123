"""One test method, many tests: over dtypes, storage formats, and the operators of a database."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import torch

from torch_npu import npu
from torch_npu.formats import Format
from torch_npu.testing._device import get_npu_device

_DEVICE_TYPE = "npu"
_DEFAULT_FORMATS = (int(Format.ND),)  # of an operator that does not say which formats it takes
_GIVEN = {"dtype": "Dtypes", "npu_format": "Formats"}  # parameter: the decorator that brings its values


class _Values:
    """A mark on a test method: the values one of its parameters takes in turn."""

    parameter = ""

    def __init__(self, *values: Any) -> None:
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            values = tuple(values[0])
        if not values:
            raise ValueError(f"{type(self).__name__} needs at least one value")
        self.values = values

    def __call__(self, method: Callable[..., Any]) -> Callable[..., Any]:
        marks = {**getattr(method, "_npu_values", {}), self.parameter: self.values}
        method._npu_values = marks  # type: ignore[attr-defined]
        return method


class Dtypes(_Values):
    """`@Dtypes(torch.float, torch.half)`: the test gets each as `dtype`."""

    parameter = "dtype"


class Formats(_Values):
    """`@Formats(0, 3, 29)`: the test gets each storage format as `npu_format`."""

    parameter = "npu_format"

    def __init__(self, *formats: Any) -> None:
        super().__init__(*formats)
        self.values = tuple(int(Format(value)) for value in self.values)


def instantiate_tests(cls: type | None = None) -> Any:
    """Class decorator: a test that takes dtype or npu_format becomes one test per value of its Dtypes and Formats."""
    return instantiate_tests if cls is None else _replace_tests(cls, _over_values)


def instantiate_ops_tests(op_db: Iterable[Any]) -> Callable[[type], type]:
    """Class decorator: a test that takes op becomes one per operator and dtype (and format) that the operator supports.

    Dtypes and Formats of a test narrow it; what an OpInfo says about skips and expected failures holds.
    """
    operators = list(op_db)

    def instantiate(cls: type) -> type:
        return _replace_tests(cls, lambda owner, name, method: _over_operators(operators, owner, name, method))

    return instantiate


def graph_mode(method: Callable[..., Any]) -> Callable[..., Any]:
    """The test runs, and once more in graph mode where this torch.npu has one (torch 1.8.1's had)."""

    @functools.wraps(method)
    def both(*args: Any, **kwargs: Any) -> None:
        method(*args, **kwargs)
        if hasattr(npu, "enable_graph_mode"):
            npu.enable_graph_mode()
            try:
                method(*args, **kwargs)
            finally:
                npu.disable_graph_mode()

    return both


_Expansion = Callable[[type, str, Callable[..., Any]], Iterable[tuple[str, Callable[..., Any]]]]


def _replace_tests(cls: type, expand: _Expansion) -> type:
    for name, method in list(vars(cls).items()):
        if not (name.startswith("test") and callable(method)):
            continue
        generated = list(expand(cls, name, method))
        if not generated:
            continue
        delattr(cls, name)
        for new_name, test in generated:
            if new_name in vars(cls):
                raise ValueError(
                    f"{cls.__name__} has two tests with the name {new_name}: the same value is given twice"
                )
            setattr(cls, new_name, test)
    return cls


def _parameters(cls: type, name: str, method: Callable[..., Any], known: tuple[str, ...]) -> list[str]:
    """What the test is given, checked: nothing that nobody gives, and no value list that it does not take. A parameter with a default
    keeps it unless there is a value for it."""
    valued = {"device", "op", *getattr(method, "_npu_values", {})}
    parameters = [
        parameter.name
        for parameter in list(inspect.signature(method).parameters.values())[1:]
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and (parameter.default is parameter.empty or parameter.name in valued)
    ]
    test = f"{cls.__name__}.{name}"
    for parameter in parameters:
        if parameter not in known:
            raise TypeError(f"{test} takes {parameter!r}: only {', '.join(known)} are given to tests")
    for parameter in getattr(method, "_npu_values", {}):
        if parameter not in parameters:
            raise TypeError(f"{test} has @{_GIVEN[parameter]} but no parameter {parameter!r}")
    return parameters


def _over_values(cls: type, name: str, method: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    takes = _parameters(cls, name, method, ("device", *_GIVEN))
    marks = getattr(method, "_npu_values", {})
    for parameter in takes:
        if parameter in _GIVEN and parameter not in marks:
            raise TypeError(f"{cls.__name__}.{name} takes {parameter!r} but has no @{_GIVEN[parameter]}")
    for values in product(*(marks[parameter] for parameter in _GIVEN if parameter in takes)):
        arguments = dict(zip((parameter for parameter in _GIVEN if parameter in takes), values, strict=True))
        if takes:
            yield _generated(name, method, arguments, "device" in takes)


def _over_operators(
    operators: list[Any], cls: type, name: str, method: Callable[..., Any]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    if "op" not in inspect.signature(method).parameters:
        return
    takes = _parameters(cls, name, method, ("device", "op", *_GIVEN))
    marks = getattr(method, "_npu_values", {})
    for op in operators:
        supported = op.supported_dtypes(_DEVICE_TYPE)
        dtypes = [dtype for dtype in marks.get("dtype", sorted(supported, key=str)) if dtype in supported]
        formats = marks.get("npu_format", getattr(op, "formats", None) or _DEFAULT_FORMATS)
        for dtype, npu_format in product(dtypes, formats if "npu_format" in takes else (None,)):
            arguments = {"op": op, "dtype": dtype, "npu_format": npu_format}
            arguments = {
                parameter: value for parameter, value in arguments.items() if parameter in takes or parameter == "dtype"
            }
            shown, test = _generated(
                name, method, arguments, "device" in takes, hidden=() if "dtype" in takes else ("dtype",)
            )
            for decorate in op.get_decorators(cls.__name__, name, _DEVICE_TYPE, dtype, {}):
                test = decorate(test)
            yield shown, test


def _generated(
    name: str, method: Callable[..., Any], values: dict[str, Any], with_device: bool, hidden: tuple[str, ...] = ()
) -> tuple[str, Callable[..., Any]]:
    """The name and the test for one choice of values; `hidden` ones are only in the name."""
    arguments = {parameter: value for parameter, value in values.items() if parameter not in hidden}

    @functools.wraps(method)
    def test(self: Any) -> Any:
        device = {"device": get_npu_device()} if with_device else {}
        return method(self, **arguments, **device)

    del test.__wrapped__  # its signature would tell test runners of parameters
    shown = "_".join([name, *(_shown(parameter, value) for parameter, value in values.items())])
    test.__name__, test.__qualname__ = shown, f"{method.__qualname__.rpartition('.')[0]}.{shown}".lstrip(".")
    return shown, test


def _shown(parameter: str, value: Any) -> str:
    if parameter == "npu_format":
        return Format(value).name
    if parameter == "op":
        return str(value.formatted_name)
    return (
        str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else getattr(value, "__name__", str(value))
    )
