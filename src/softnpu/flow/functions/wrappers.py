"""`init_wrapper` and `proc_wrapper`: methods of a low-level class become functions of a node."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.errors import DfAbortException
from softnpu.flow.functions.work import PORTS, udf_functions

_TRACEBACKS = 10
_failures: dict[str, int] = {}  # how often each function failed in this process


def parse_ports(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`"i0,i1,o0"` as input and output indexes."""
    ports: dict[str, list[int]] = {"i": [], "o": []}
    for part in text.split(",") if isinstance(text, str) else [repr(text)]:
        match = re.fullmatch(r"([io])(\d{1,5})", part.strip())
        if match is None:
            raise ValueError(f'{part!r} in {text!r} is no input or output: "i0,i1,o0" is the form')
        index = int(match[2])
        if index in ports[match[1]]:
            raise ValueError(f"{part.strip()} is twice in {text!r}")
        ports[match[1]].append(index)
    return tuple(ports["i"]), tuple(ports["o"])


def _guarded(function: Callable[..., Any]) -> Callable[..., int]:
    """Exceptions and results that are no number become 564000."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> int:
        try:
            code = function(*args, **kwargs)
        except DfAbortException:
            return codes.SUCCESS
        except Exception:
            report(function.__qualname__)
            return codes.FUNC_FAILED
        if not isinstance(code, int):
            log.error("%s returned %r; it has to return 0 or an error code", function.__qualname__, code)
            return codes.FUNC_FAILED
        return int(code)

    return call


def report(what: str) -> None:
    """Say what just failed: the traceback on stderr the first times, a line in the log each time."""
    problem = sys.exc_info()[1]
    _failures[what] = count = _failures.get(what, 0) + 1
    if count <= _TRACEBACKS:
        end = " (no more tracebacks of it after this one)" if count == _TRACEBACKS else ""
        sys.stderr.write(f"{what} failed{end}:\n{traceback.format_exc()}")
        sys.stderr.flush()
    log.error("%s failed (time %d here): %s: %s", what, count, type(problem).__name__, problem)


def init_wrapper() -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """For `init_flow_func(self, meta_params)`."""
    return _guarded


def proc_wrapper(func_list: str = "") -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """For a function `(self, run_context, input_flow_msgs)`; the text names its inputs and outputs: `"i0,i1,o0"`."""
    if callable(func_list):
        raise TypeError('proc_wrapper is used with the inputs and outputs of the function: @proc_wrapper("i0,o0")')
    ports = parse_ports(func_list)

    def wrap(function: Callable[..., Any]) -> Callable[..., int]:
        guarded = _guarded(function)
        setattr(guarded, PORTS, ports)
        return guarded

    return wrap


# ---- who has which functions -----------------------------------------------------------------------------------------------


class FlowFuncInfos:
    """The functions of one class: name → (input indexes, output indexes)."""

    def __init__(self, clz: type) -> None:
        self.clz = clz
        self.functions = {each.name: (each.inputs, each.outputs) for each in udf_functions(clz)}


class FlowFuncRegister:
    """Finds the functions that `proc_wrapper` marked; nothing has to be registered before."""

    @staticmethod
    def get_flow_func_infos(clz: type) -> FlowFuncInfos:
        """The functions of a class; DfException 564000 when it has none."""
        return FlowFuncInfos(clz)
