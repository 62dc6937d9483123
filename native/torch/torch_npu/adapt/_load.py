"""From the file to operators that can be called."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch_npu.adapt import _cpp, _python
from torch_npu.adapt._file import AdaptError, Functions, read

_REGISTRATION = "RegisterNPU.cpp"
_open: list[Adapter] = []  # bodies must outlive the variable that a program may not even make


class Adapter:
    """Operators that were loaded. Those with bodies in Python can be taken back with `close`."""

    def __init__(self, functions: Functions, libraries: list[Any], compiled: Path | None) -> None:
        self.functions, self.compiled = functions, compiled
        self._libraries = libraries
        self._added = _python.bind(functions, sys.modules["torch_npu"])
        _open.append(self)

    def close(self) -> None:
        """Take names and bodies back; the operators stay declared, and compiled bodies in place, until the process ends."""
        if self.compiled is not None:
            raise RuntimeError(
                f"{self.compiled} holds compiled operators; C++ registrations last until the process ends"
            )
        for owner, name in self._added:
            delattr(owner, name)
        for library in self._libraries:
            library._destroy()
        self._added, self._libraries = [], []
        if self in _open:
            _open.remove(self)


def generate(path: str | os.PathLike[str], output: str | os.PathLike[str], signatures: str = "now") -> list[Path]:
    """Write NPUNativeFunctions.h, RegisterNPU.cpp, custom_ops.py and exposed_api.py for a file into a folder.

    `signatures` "1.8" declares bodies as torch 1.8 did, with Scalars by value: the form of the API development guide."""
    if signatures not in _cpp.SIGNATURES:
        raise ValueError(f"signatures must be one of {', '.join(_cpp.SIGNATURES)}, not {signatures!r}")
    functions = read(path)
    texts = {
        _cpp.HEADER: _cpp.declarations(functions, signatures),
        _REGISTRATION: _cpp.registration(functions, signatures),
        "custom_ops.py": _python.custom_ops(functions),
        "exposed_api.py": _python.exposed_api(functions),
    }
    written = []
    for name, text in texts.items():
        target = Path(output) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text("utf-8") != text:  # a newer file would be compiled again
            target.write_text(text, "utf-8")
        written.append(target)
    return written


def load(
    path: str | os.PathLike[str],
    *,
    bodies: _python.Bodies | str | os.PathLike[str] | None = None,
    sources: Sequence[str | os.PathLike[str]] = (),
    build: str | os.PathLike[str] | None = None,
    signatures: str = "now",
    verbose: bool = False,
) -> Adapter:
    """Read a file and register its operators with their bodies.

    `bodies` is a module, a mapping of functions or a Python file: `add__Tensor` is the body of add.Tensor. `sources` are C++ files
    that define `NPUNativeFunctions::add`; they are compiled in the folder `build` (default: a new one). One of the two is needed."""
    if (bodies is None) == (not sources):
        raise ValueError("pass either bodies (Python) or sources (C++), and not both")
    if sources:
        return _compiled(Path(path), [Path(source) for source in sources], build, signatures, verbose)
    functions = read(path)
    module = _module(Path(bodies)) if isinstance(bodies, str | os.PathLike) else bodies
    assert module is not None
    return Adapter(functions, _python.register(functions, module), None)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise AdaptError(f"{path}: is no Python file with bodies")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def include_path() -> str:
    """The folder with the headers of adapters, below which `torch_npu/csrc/...` lies."""
    return str(Path(__file__).parents[1] / "include")


def _compiled(
    path: Path, sources: list[Path], build: str | os.PathLike[str] | None, signatures: str, verbose: bool
) -> Adapter:
    from torch.utils import cpp_extension

    for source in sources:
        if not source.is_file():
            raise AdaptError(f"{source}: there is no such source file")
    folder = Path(build) if build is not None else Path(tempfile.mkdtemp(prefix="torch_npu_adapt_"))
    functions = read(path)  # before compiling: whether an operator exists changes with it
    generate(path, folder, signatures)
    cpp_extension.load(
        name=f"npu_{path.stem}_{path.parent.name}".replace("-", "_").replace(".", "_"),
        sources=[str(source.resolve()) for source in (*sources, folder / _REGISTRATION)],
        extra_include_paths=[str(folder), include_path()],
        build_directory=str(folder),
        is_python_module=False,
        verbose=verbose,
    )
    return Adapter(functions, [], folder)
