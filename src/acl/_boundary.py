"""The one boundary of the face `acl`: arguments → checked values, handles → objects, exceptions → codes, tracing.

Every public function is built from its row in `spec/` when it is first asked for. A row that names the file of its body
(a function of the same name in `acl/_bodies/`) calls it; a row without one answers the documented not-supported code in its
documented return shape. How a call looks to the program (positional only, texts of TypeErrors, wrapping of integers) is
the binding's.
"""

from __future__ import annotations

import functools
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from acl._arguments import M64, converter, is_handle, resolver
from acl._rows import Row, body_of, face_of
from softnpu.base import callsite
from softnpu.base.errors import HIMPI_MODULES, NpuError, Raise, as_himpi, codes, himpi_code
from softnpu.base.log import DEBUG, ERROR, log
from softnpu.base.recent import recent
from softnpu.base.trace import Span, bus
from softnpu.runtime.process import process

FACES = ("blas", "fv", "himpi", "mdl", "media", "op", "prof", "rt", "util")

# Spellings of the guide that the binding does not have: programs typed from it run, `dir()` does not show them.
MISSPELT = {
    ("acl.mdl", "set_aipp_rbuw_swap_switch"): "set_aipp_rbuv_swap_switch",
    ("acl.himpi", "vdec_start_rcv_stream"): "vdec_start_recv_stream",
    ("acl.himpi", "vdec_stop_rcv_stream"): "vdec_stop_recv_stream",
    ("acl.himpi", "pngd_get_image_info"): "png_get_image_info",
}
# Answers that a waiting thread gets all day long (process_report; nothing there yet, no room yet): no reason to fill the log.
_NORMAL = frozenset({codes.RT_REPORT_TIMEOUT, codes.RT_THREAD_SUBSCRIBE}) | {
    himpi_code(module, error) for module in HIMPI_MODULES for error in (0x0E, 0x0F, 0x14)
}
_HIMPI_NOT_SUPPORT = 0x08
# Functions that leave a wrong number of arguments to CPython's own complaint.
_CPYTHONS_WORDS = frozenset({"acl.util.start_thread", "acl.op.register_compile_func"})


# ---- results ---------------------------------------------------------------------------------------------------------


class Shape:
    """The return shape of a row: names, failure values, and where `ret` stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        items = [item.strip() for item in text.split(",")] if text != "none" else []
        self.has_ret = "ret" in items
        self.failures = [_failure(item) for item in items if item != "ret"]
        self.bare = len(items) == 1 and not self.has_ret

    def fail(self, code: int) -> Any:
        """The answer of a failed call."""
        values = tuple(make() for make in self.failures)
        if self.has_ret:
            return (*values, code) if values else code
        return values[0] if self.bare else (values or None)


def _failure(item: str) -> Callable[[], Any]:
    _, _, rest = item.partition(":")
    kind, _, default = (part.strip() for part in rest.partition("="))
    if default:
        value = None if default == "None" else int(default, 0)
        return lambda: value
    makers: dict[str, Callable[[], Any]] = {
        "int": int,
        "float": float,
        "str": str,
        "dict": dict,
        "list": list,
        "bytes": bytes,
    }
    return makers.get(kind, lambda: None)


def report(name: str, shape: Shape, error: NpuError) -> Any:
    """Log a failed call, remember it for get_recent_err_msg, and give its documented answer."""
    recent.note(name, error)
    logger = log()
    level = DEBUG if error.code in _NORMAL else ERROR
    if logger.level <= level:
        remedy = f" ({error.remedy})" if error.remedy else ""
        logger.write(level, f"{error}{remedy}", "ASCENDCL", name)
    return shape.fail(error.code) if error.values is None else (*error.values, error.code)


def _internal(name: str, error: Exception) -> NpuError:
    """A defect of ours: the program gets a code, the log gets the traceback."""
    log().write(ERROR, "internal error: " + "".join(traceback.format_exception(error)), "ASCENDCL", name)
    code = codes.BAD_ALLOC if isinstance(error, MemoryError) else codes.INTERNAL_ERROR
    return NpuError(
        code, f"{type(error).__name__}: {error}", "this is a defect of softnpu; please report it with the log file"
    )


# ---- functions -------------------------------------------------------------------------------------------------------

_TEMPLATE = """
def {name}(*args):
{trace}    try:
{take}
    except Raise as wrapped:
        raise wrapped.exception from None
    except Exception:
        raise complain(label, arguments, args) from None
    try:
{resolve}        {call}
    except NpuError as error:
        return report(label, shape, error)
    except Raise as wrapped:
        raise wrapped.exception from None
    except Exception as error:
        if from_outside(error):
            raise
        return report(label, shape, internal(label, error))
    return {result}
"""


_KIND_WORDS = {
    "f32": "a number", "f64": "a number", "str": "a str without NUL", "dict": "a dict", "tuple": "a tuple",
    "i16": "an int of 16 bits", "i32": "an int of 32 bits", "i64": "an int of 64 bits", "u8": "an int from 0 to 255", "n32": "an int of 32 bits, not negative",
}  # fmt: skip


def _complain(label: str, arguments: list[tuple[str, str]], args: tuple[Any, ...]) -> TypeError:
    """The binding's TypeError, whose text is fixed; which argument is wrong stands in the log."""
    reason = f"it takes {len(arguments)} arguments ({', '.join(name for name, _ in arguments)}), {len(args)} were given"
    for index, ((name, kind), value) in enumerate(zip(arguments, args, strict=False)):
        try:
            converter(kind, index)(value)
        except Exception:
            need = _KIND_WORDS.get(kind, "an int")
            reason = f"argument {index + 1} ({name}) must be {need}, not {type(value).__name__}"
            break
    log().write(ERROR, f"args parse failed: {reason}", "ASCENDCL", label)
    if len(args) != len(arguments) and label in _CPYTHONS_WORDS:
        return TypeError(f"function takes exactly {len(arguments)} arguments ({len(args)} given)")
    return TypeError(f"{label} args parse failed")


_TRACE = """    if bus.listeners:
        return traced(label, untraced(), args)
"""


def _traced(label: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run a call as a span of the trace bus."""
    start = time.monotonic_ns()
    answer: Any = None
    try:
        answer = function(*args)
        return answer
    finally:
        end = time.monotonic_ns()
        try:
            context = getattr(process().registry.local, "context", None)
        except NpuError:  # the environment allows no process object; the call itself has said so
            context = None
        device = context.device.index if context is not None else -1
        bus.publish(Span("api", label, start, end, device, -1, threading.get_native_id(), {"answer": answer}))


def _take_lines(arguments: list[tuple[str, str]], optional: int) -> list[str]:
    names = [f"a{i}" for i in range(len(arguments))]
    lines = []
    if not names:
        return ["pass"]  # surplus arguments of a function that takes none are ignored, as in the binding
    if optional:
        lines.append(f"if not {len(names) - optional} <= len(args) <= {len(names)}: raise TypeError")
        lines.append(f"args += (MISSING,) * ({len(names)} - len(args))")
    lines.append(f"({', '.join(names)},) = args")
    for index, (name, (_, kind)) in enumerate(zip(names, arguments, strict=True)):
        test = ""
        if kind in ("u64", "ptr") or is_handle(kind):
            test = f"if type({name}) is not int or not 0 <= {name} <= {M64}: "
        elif kind == "i32":
            test = f"if type({name}) is not int or not -2147483648 <= {name} <= 2147483647: "
        elif index >= len(names) - optional:
            test = f"{name} = None if {name} is MISSING else "
            lines.append(f"{test}convert{index}({name})")
            continue
        lines.append(f"{test}{name} = convert{index}({name})")
    return lines


def _missing(label: str, row: Row) -> Callable[..., Any]:
    """The body of a function that is declared but not there yet."""
    code = himpi_code(row.mod, _HIMPI_NOT_SUPPORT) if row.mod else codes.API_NOT_SUPPORT

    def body(*_args: Any) -> Any:
        raise NpuError(
            code,
            f"{label} is declared but not implemented in this version of softnpu (manual section: {row.section})",
            "the pages under docs/support list what is implemented",
        )

    return body


def _call_and_result(shape: Shape, count: int) -> tuple[str, str]:
    """The line that calls the body, and what the function returns afterwards."""
    call = f"body({', '.join(f'a{i}' for i in range(count))})"
    if shape.text == "none":
        return call, "None"
    if not shape.failures:
        return call, "0"
    result = "value" if not shape.has_ret else "(value, 0)" if len(shape.failures) == 1 else "(*value, 0)"
    return f"value = {call}", result


def build(module: str, name: str, row: Row, body: Callable[..., Any] | None) -> Callable[..., Any]:
    """The public function of a row."""
    label = f"{module}.{name}"
    arguments = row.arguments
    shape = Shape(row.returns)
    space: dict[str, Any] = {
        "bus": bus, "traced": _traced, "label": label, "Raise": Raise, "NpuError": NpuError, "report": report,
        "shape": shape, "internal": _internal, "from_outside": callsite.from_outside, "complain": _complain, "arguments": arguments, "MISSING": object(),
        "body": body or _missing(label, row),
    }  # fmt: skip
    if row.mod:
        space["report"] = lambda label, shape, error: report(label, shape, as_himpi(error, row.mod))
    resolve = []
    for index, (_, kind) in enumerate(arguments):
        space[f"convert{index}"] = converter(kind, index)
        if is_handle(kind) and body is not None and not getattr(body, "raw_handles", False):
            space[f"resolve{index}"] = resolver(kind)
            resolve.append(f"        a{index} = resolve{index}(a{index})\n")
    take = "".join(f"        {line}\n" for line in _take_lines(arguments, row.optional)).rstrip("\n")
    call, result = _call_and_result(shape, len(arguments))

    def define(trace: str) -> Callable[..., Any]:
        source = _TEMPLATE.format(name=name, trace=trace, take=take, resolve="".join(resolve), call=call, result=result)
        exec(compile(source, f"<softnpu boundary {label}>", "exec"), space)
        function: Callable[..., Any] = space[name]
        return function

    space["untraced"] = functools.cache(lambda: define(""))  # made when a call is traced for the first time
    function = define(_TRACE)
    function.__module__ = module
    names = ", ".join(argument for argument, _ in arguments)
    function.__doc__ = f"{name}({names}) -> {row.returns}\n\n{row.doc}\nManual section: {row.section}."
    return function


def attribute(module: str, name: str) -> Any:
    """A function of a face module, built now and kept in the module for the next time."""
    if (module, name) in MISSPELT:
        return attribute(module, MISSPELT[module, name])
    face = face_of(module)
    row = face.rows.get(name)
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    function = build(module, name, row, body_of(module, name))
    face.namespace[name] = function
    return function


def listing(module: str) -> list[str]:
    """What `dir()` of a face module shows: its functions, and the submodules of `acl`."""
    submodules = FACES if module == "acl" else ()
    face = face_of(module)
    return sorted({*face.rows, *submodules, *(key for key in tuple(face.namespace) if key.startswith("__"))})
