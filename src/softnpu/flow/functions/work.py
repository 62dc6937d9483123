"""User code on its way to a worker: what it is called, which functions it has, and its bytes."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.plan import UDF_LOADER, Function
from softnpu.flow.values import register

PORTS = "_flow_ports"  # what `proc_wrapper` leaves on a method


@dataclass
class Work:
    """What a FuncProcessPoint does. Input and output indexes are those of the process point."""

    name: str
    functions: tuple[Function, ...]
    loader: str
    data: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)
    visible_device: bool = False
    outputs: int | None = None  # where a project says so; otherwise those that the functions name

    @property
    def input_num(self) -> int:
        """Inputs of all functions together."""
        return sum(len(function.inputs) for function in self.functions)

    @property
    def output_num(self) -> int:
        """Outputs; functions may share them."""
        return (
            self.outputs
            if self.outputs is not None
            else len({output for function in self.functions for output in function.outputs})
        )


def code(value: Any, what: str) -> bytes:
    """User code as bytes; TypeError when it holds on to something that cannot travel."""
    try:
        return register.pickle_dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError) as problem:
        raise TypeError(
            f"{what} cannot be sent to another process: {problem}. Make what it needs inside it "
            "(for a class: in its constructor) instead of using what the program made"
        ) from problem


def code_by_value(function: Any, what: str) -> bytes:
    """Like `code`, but without importing the function's module over there: a hook has to run before such imports."""
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ in ("__main__", "builtins"):
        return code(function, what)
    cloudpickle.register_pickle_by_value(module)
    try:
        return code(function, what)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def baggage() -> dict[str, Any]:
    """What every worker needs beside the code: the register as it is now, and where modules are found."""
    here = os.getcwd()
    return {"register": register.msg_type_register.dumps(), "path": [here, *(entry or here for entry in sys.path)]}


def unpack_path(path: Iterable[str]) -> None:
    """In the worker: modules that the program could import can be imported here too."""
    sys.path += [entry for entry in dict.fromkeys(path) if entry not in sys.path]


def check_indexes(name: str, functions: Iterable[Function]) -> None:
    """Inputs belong to one function each, and no index is left out."""
    functions = list(functions)
    inputs = [index for function in functions for index in function.inputs]
    if sorted(inputs) != list(range(len(inputs))):
        raise ValueError(
            f"{name}: the input indexes of its functions are {inputs}; each of 0, 1, 2 … has to be there once"
        )
    outputs = {index for function in functions for index in function.outputs}
    if outputs != set(range(len(outputs))):
        raise ValueError(
            f"{name}: the output indexes of its functions are {sorted(outputs)}; 0, 1, 2 … have to be there"
        )


def udf_functions(cls: type) -> tuple[Function, ...]:
    """The functions that a class marked with `proc_wrapper`."""
    functions = []
    for name in dir(cls):
        ports = getattr(getattr(cls, name, None), PORTS, None)
        if ports is not None:
            functions.append(Function(name, *ports))
    if not functions:
        raise DfException(
            f'{cls.__name__} has no function for messages: decorate a method with flow_func.proc_wrapper("i0,o0").',
            codes.FUNC_FAILED,
        )
    check_indexes(cls.__name__, functions)
    return tuple(functions)


def of_class(cls: type) -> Work:
    """A low-level UDF class."""
    functions = udf_functions(cls)
    data = {"object": code(cls, f"The class {cls.__name__}"), **baggage()}
    return Work(cls.__name__, functions, UDF_LOADER, data)
