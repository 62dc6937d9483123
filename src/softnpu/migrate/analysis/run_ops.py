"""Running a program on the CPU and noting every operator that it calls: the guide's "dump op", compared with a chip's rows."""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from softnpu.migrate.analysis.chip_rows import lacks
from softnpu.migrate.errors import MigrateError

COLUMNS = ("Operator", "Data types", "Calls", "Shapes", "First call", "Supported", "Reason")
_SHAPES = 3  # different shapes that are remembered


@dataclass
class Use:
    """An operator with one combination of data types."""

    name: str
    dtypes: tuple[str, ...]
    calls: int = 0
    shapes: list[str] = field(default_factory=list)
    place: str = ""


def run_script(script: Path, arguments: Sequence[str]) -> tuple[list[Use], str]:
    """Run a program as `python script arguments…` would; returns its operators and how it ended."""
    if not script.is_file():
        raise MigrateError(f"The program {script} after --run does not exist.")
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError as problem:
        raise MigrateError("torch is not installed here, so no program can be run; install torch.") from problem
    uses: dict[tuple[str, tuple[str, ...]], Use] = {}

    class Watch(TorchDispatchMode):  # type: ignore[misc, no-untyped-call, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            _note(uses, func, args, kwargs or {}, result)
            return result

    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        with Watch():  # type: ignore[no-untyped-call, unused-ignore]
            runpy.run_path(str(script), run_name="__main__")
        end = "it ran to its end"
    except SystemExit as stop:
        end = "it ran to its end" if not stop.code else f"it ended with {stop.code}"
    except Exception as problem:
        end = f"it failed with {type(problem).__name__}: {problem}"
    finally:
        sys.argv, sys.path[:] = argv, path
    return sorted(uses.values(), key=lambda use: (-use.calls, use.name)), end


def _note(uses: dict[tuple[str, tuple[str, ...]], Use], func: Any, args: Any, kwargs: Any, result: Any) -> None:
    tensors = list(_tensors((args, tuple(kwargs.values()))))
    dtypes = tuple(dict.fromkeys(str(tensor.dtype).removeprefix("torch.") for tensor in tensors or _tensors((result,))))
    name = str(func).replace(".default", "").replace("aten.", "aten::", 1)
    use = uses.get((name, dtypes))
    if use is None:
        use = uses[name, dtypes] = Use(name, dtypes, place=_place())
    use.calls += 1
    if len(use.shapes) < _SHAPES:
        shape = " ".join(str(tuple(tensor.shape)) for tensor in tensors)
        if shape not in use.shapes:
            use.shapes.append(shape)


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _tensors(value)
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            yield value


def _place() -> str:
    """The nearest line that belongs neither to torch, the standard library nor this room."""
    libraries = (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), os.path.dirname(__file__), "<")
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(libraries):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def judge(uses: Sequence[Use], soc: str) -> list[tuple[Use, str]]:
    """Each use with the reason why the chip cannot run it, or an empty text."""
    missing = lacks(soc)
    return [(use, next((lack.reason for lack in missing if lack.applies(use.name, use.dtypes)), "")) for use in uses]
