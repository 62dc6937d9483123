"""The input tree: which files there are, how large it is, and how each kind is copied."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from softnpu.migrate.errors import MigrateError

MAX_FILES = 5000
MAX_BYTES = 50 << 30
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".sh", ".bash"})
_MENTION = re.compile(r"\bcuda\b|\bnccl\b|CUDA_VISIBLE_DEVICES|nvidia-smi", re.IGNORECASE)
_READABLE = 1 << 20


@dataclass
class Tree:
    """Files of an input by kind, relative to its root."""

    root: Path
    python: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    untouched: list[Path] = field(default_factory=list)  # in folders of tools: copied, never read
    tools: dict[Path, str] = field(default_factory=dict)  # these folders, and what they are
    links: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    special: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    size: int = 0

    def tool(self, path: Path) -> Path | None:
        """The folder of a tool that a path lies in."""
        return next((parent for parent in path.parents if parent in self.tools), None) if self.tools else None


def scan(source: Path, skip: frozenset[Path]) -> Tree:
    """List an input folder or file; folders in `skip` (the outputs) are left out."""
    if source.is_file():
        tree = Tree(source.parent)
        _sort(tree, source, source.parent)
        return tree
    tree = Tree(source)

    def failed(problem: OSError) -> None:
        tree.unreadable.append((Path(problem.filename).relative_to(source), problem.strerror or str(problem)))

    for folder, names, files in os.walk(source, onerror=failed):
        here = Path(folder)
        names[:] = sorted(name for name in names if name != "__pycache__" and here / name not in skip)
        for name in list(names):
            if (here / name).is_symlink():
                names.remove(name)
                tree.links.append((here / name).relative_to(source))
            else:
                _enter(tree, (here / name).relative_to(source))
        for name in sorted(files):
            _sort(tree, here / name, source)
    return tree


def _enter(tree: Tree, folder: Path) -> None:
    """Version control, editors and environments are not part of the program, whatever sources they hold."""
    tree.folders.append(folder)
    if tree.tool(folder) is not None:
        return
    if (tree.root / folder / "pyvenv.cfg").is_file():
        tree.tools[folder] = "a virtual environment"
    elif folder.name.startswith("."):
        tree.tools[folder] = "a folder of a tool"


def _sort(tree: Tree, path: Path, root: Path) -> None:
    relative = path.relative_to(root)
    if path.is_symlink():
        tree.links.append(relative)
        return
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        tree.special.append(relative)
        return
    tree.size += status.st_size
    if tree.tool(relative) is not None:
        tree.untouched.append(relative)
    else:
        (tree.python if is_python(path) else tree.others).append(relative)


def is_python(path: Path) -> bool:
    """Whether a file is a source, by its name."""
    return path.suffix in (".py", ".pyw")


def check_input(text: str) -> Path:
    """The input of -i: an existing folder, or a Python file."""
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if not path.exists():
        raise MigrateError(f"The input {text} does not exist; give a folder or a .py file after -i.")
    if path.is_file() and path.suffix != ".py":
        raise MigrateError(f"The input {text} is not a Python file; give a folder or a .py file after -i.")
    if not os.access(path, os.R_OK):
        raise MigrateError(f"The input {text} cannot be read; check its permissions.")
    return path


def check_output(text: str) -> Path:
    """The folder of -o, which is made if it is not there."""
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if path.exists() and not path.is_dir():
        raise MigrateError(f"The output {text} is a file; give a folder after -o.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise MigrateError(
            f"The output folder {text} cannot be made ({problem.strerror}); choose another."
        ) from problem
    if not os.access(path, os.W_OK | os.X_OK):
        raise MigrateError(f"The output folder {text} cannot be written; choose another or change its permissions.")
    return path


def copy_link(tree: Tree, link: Path, target: Path) -> str:
    """Make a link anew: into the copy where it pointed into the input. Returns a warning or an empty text."""
    original = tree.root / link
    aim = Path(os.readlink(original))
    full = Path(os.path.normpath(original.parent / aim))
    inside = full.is_relative_to(tree.root)
    new = Path(os.path.relpath(full, original.parent)) if inside else full
    (target / link).symlink_to(new)
    if not original.exists():
        return "a link that leads nowhere; it was copied as it is"
    if not inside and (full.suffix == ".py" or full.is_dir()):
        return f"a link to {full} outside of the input, which was not converted"
    return ""


def copy_file(tree: Tree, relative: Path, target: Path) -> None:
    """Copy a file with its permissions and times."""
    shutil.copy2(tree.root / relative, target / relative)


def copied_sources(tree: Tree) -> Iterator[tuple[Path, str]]:
    """Folders of tools with sources in them, and a sentence about each."""
    counts = Counter(tree.tool(path) for path in tree.untouched if is_python(path))
    for folder, what in tree.tools.items():
        if counts[folder]:
            yield folder, f"{what}; its Python files ({counts[folder]}) were copied unchanged"


def mentions(tree: Tree) -> Iterator[tuple[Path, int, str]]:
    """Lines of settings and shell scripts that speak of CUDA: path, line number, text. They are for the user to change."""
    for relative in tree.others:
        path = tree.root / relative
        if path.suffix not in _SETTINGS or not os.access(path, os.R_OK) or path.stat().st_size > _READABLE:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if _MENTION.search(line):
                yield relative, number, line.strip()[:200]
                break  # one line is enough to send somebody there


def publish(built: Path, target: Path) -> None:
    """Put a finished folder in its place; one that exists is kept and its files are replaced one by one."""
    if not target.exists():
        built.rename(target)
        return
    for folder, names, files in os.walk(built):
        goal = target / Path(folder).relative_to(built)
        goal.mkdir(exist_ok=True)
        for name in [*files, *(entry for entry in names if (Path(folder) / entry).is_symlink())]:
            os.replace(Path(folder) / name, goal / name)
    shutil.rmtree(built)
