"""The one boundary of the face `acl`: arguments → checked values, handles → objects, exceptions → codes, tracing.

Every public function is built from its row in `spec/` when it is first asked for. A row with a body (a function of the
same name in `acl/_bodies/`) calls it; a row without one answers the documented not-supported code in its documented
return shape. How a call looks to the program (positional only, texts of TypeErrors, wrapping of integers) is the
binding's, section 1 of the reference.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from acl._arguments import M64, converter, is_handle
from softnpu.base import callsite
from softnpu.base.errors import HIMPI_MODULES, NpuError, Raise, as_himpi, codes, himpi_code
from softnpu.base.log import DEBUG, ERROR, log
from softnpu.base.recent import recent
from softnpu.base.trace import Span, bus
from softnpu.runtime.process import SURVIVES_FINALIZE, process

FACES = ("blas", "fv", "himpi", "mdl", "media", "op", "prof", "rt", "util")

# Which files of `acl/_bodies/` hold the bodies of a module.
BODIES: dict[str, tuple[str, ...]] = {
    "acl": ("core", "tensor_desc", "data_buffer"),
    "acl.rt": ("device", "context", "stream", "event", "callback", "memory", "copy", "sharing", "limits"),
    "acl.util": ("util",),
    "acl.op": ("op",),
    "acl.blas": ("blas",),
    "acl.media": (
        "media_memory",
        "media_desc",
        "media_channel",
        "media_vpc",
        "media_image",
        "media_vdec",
        "media_venc",
    ),
    "acl.himpi": ("himpi_sys", "himpi_vpc", "himpi_pngd", "himpi_vdec", "himpi_venc"),
    "acl.mdl": ("dataset", "model", "model_desc", "aipp", "model_aipp", "dump"),
}
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


# ---- handles ---------------------------------------------------------------------------------------------------------


def _stream(handle: int) -> Any:
    return process().stream(handle)


def resolver(kind: str) -> Callable[[int], Any]:
    """How a handle of this kind becomes its object: `stream` takes 0 as the default stream, `x?` takes 0 as None."""
    if kind == "stream":
        return _stream
    if kind.endswith("?"):
        plain = kind[:-1]
        return lambda handle: process().handles.get(plain, handle) if handle else None
    word = kind.rstrip("!")

    def resolve(handle: int) -> Any:
        owner = process()
        found = owner.handles.peek(word, handle)
        if found is None:
            if handle and word not in SURVIVES_FINALIZE:
                owner.need_start()
            raise owner.handles.error(word, handle)
        return found

    return resolve


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


def _missing(label: str, row: tuple[Any, ...]) -> Callable[..., Any]:
    """The body of a function that is declared but not there yet."""
    module = row[4]
    code = codes.API_NOT_SUPPORT
    if module:
        code = himpi_code(module, _HIMPI_NOT_SUPPORT)

    def body(*_args: Any) -> Any:
        raise NpuError(
            code,
            f"{label} is declared but not implemented in this version of softnpu (manual section: {row[2]})",
            "the pages under docs/support list what is implemented",
        )

    return body


def arguments_of(text: str) -> list[tuple[str, str]]:
    """`"size: u64, policy: i32"` as pairs."""
    pairs = [part.split(":") for part in text.split(",") if part.strip()]
    return [(name.strip(), kind.strip()) for name, kind in pairs]


def build(module: str, name: str, row: tuple[Any, ...], body: Callable[..., Any] | None) -> Callable[..., Any]:
    """The public function of a row."""
    label = f"{module}.{name}"
    arguments = arguments_of(row[0])
    shape = Shape(row[1])
    space: dict[str, Any] = {
        "bus": bus, "traced": _traced, "label": label, "Raise": Raise, "NpuError": NpuError, "report": report,
        "shape": shape, "internal": _internal, "from_outside": callsite.from_outside, "complain": _complain, "arguments": arguments, "MISSING": object(),
        "body": body or _missing(label, row),
    }  # fmt: skip
    if row[4]:
        space["report"] = lambda name, form, error: report(name, form, as_himpi(error, row[4]))
    resolve = []
    for index, (_, kind) in enumerate(arguments):
        space[f"convert{index}"] = converter(kind, index)
        if is_handle(kind) and body is not None and not getattr(body, "raw_handles", False):
            space[f"resolve{index}"] = resolver(kind)
            resolve.append(f"        a{index} = resolve{index}(a{index})\n")
    call = f"body({', '.join(f'a{i}' for i in range(len(arguments)))})"
    if shape.text == "none":
        result = "None"
    elif not shape.failures:
        result = "0"
    else:
        call = "value = " + call
        result = "value" if not shape.has_ret else "(value, 0)" if len(shape.failures) == 1 else "(*value, 0)"
    take = "".join(f"        {line}\n" for line in _take_lines(arguments, row[3])).rstrip("\n")

    def define(trace: str) -> Callable[..., Any]:
        source = _TEMPLATE.format(name=name, trace=trace, take=take, resolve="".join(resolve), call=call, result=result)
        exec(compile(source, f"<softnpu boundary {label}>", "exec"), space)
        made: Callable[..., Any] = space[name]
        return made

    space["untraced"] = functools.cache(lambda: define(""))  # made when a call is traced for the first time
    function = define(_TRACE)
    function.__module__ = module
    function.__doc__ = (
        f"{name}({', '.join(n for n, _ in arguments)}) -> {row[1]}\n\n{row[5]}\nManual section: {row[2]}."
    )
    return function


def raw(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a body that looks up its handles itself."""
    function.raw_handles = True  # type: ignore[attr-defined]
    return function


@functools.cache
def _load(module: str) -> tuple[dict[str, tuple[Any, ...]], list[ModuleType], dict[str, Any]]:
    """Rows, files of bodies and namespace of a face module.

    All at once, with the first function asked for: destructors call others for the first time while the interpreter ends,
    when nothing can be imported any more.
    """
    rows = importlib.import_module(f"softnpu.spec.tables.api_{module.rpartition('.')[2]}").ROWS
    parts = [importlib.import_module(f"acl._bodies.{part}") for part in BODIES.get(module, ())]
    return rows, parts, vars(importlib.import_module(module))


def rows_of(module: str) -> dict[str, tuple[Any, ...]]:
    """The rows of a face module: name → (args, returns, section, optional, mod, doc)."""
    return _load(module)[0]


def body_of(module: str, name: str) -> Callable[..., Any] | None:
    """The body of a function, or None while it has none."""
    for part in _load(module)[1]:
        found: Callable[..., Any] | None = getattr(part, name, None)
        if found is not None and getattr(found, "__module__", "") == part.__name__:
            return found
    return None


def implemented(module: str, name: str) -> bool:
    """Whether a function does what it is for (and not only refuses, as those of hardware that no chip row has)."""
    body = body_of(module, name)
    return body is not None and not getattr(body, "refuses", False)


def refuses(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a body that only answers why the thing cannot be done."""
    function.refuses = True  # type: ignore[attr-defined]
    return function


def attribute(module: str, name: str) -> Any:
    """A function of a face module, built now and kept in the module for the next time."""
    if (module, name) in MISSPELT:
        return attribute(module, MISSPELT[module, name])
    row = rows_of(module).get(name)
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    function = build(module, name, row, body_of(module, name))
    _load(module)[2][name] = function
    return function


def listing(module: str) -> list[str]:
    """What `dir()` of a face module shows: its functions, and the submodules of `acl`."""
    submodules = FACES if module == "acl" else ()
    rows, _, space = _load(module)
    return sorted({*rows, *submodules, *(key for key in tuple(space) if key.startswith("__"))})
