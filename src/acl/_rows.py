"""The rows of the face `acl` and the bodies that they name; the only reader of `spec/_generated/api/`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A function of the manual, as its row in `spec/api` declares it."""

    args: str  # "size: u64, policy: i32"
    returns: str  # "ptr: int, ret"
    section: str
    optional: int  # how many of the last arguments may be left out
    mod: str  # the module of acl.himpi whose codes it answers
    doc: str
    body: str  # the file of `acl/_bodies/` that has a function of this name: "rt.copy"; empty while it has none

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Names and kinds of the arguments."""
        pairs = [part.split(":") for part in self.args.split(",") if part.strip()]
        return [(name.strip(), kind.strip()) for name, kind in pairs]


class Face(NamedTuple):
    """A face module: its rows, the files that have their bodies, and its namespace."""

    rows: dict[str, Row]
    bodies: dict[str, ModuleType]
    namespace: dict[str, Any]


@functools.cache
def face_of(module: str) -> Face:
    """What belongs to a face module.

    All at once, with the first function asked for: destructors call others for the first time while the interpreter ends,
    when nothing can be imported any more.
    """
    table = importlib.import_module(f"softnpu.spec._generated.api.{module.rpartition('.')[2]}").ROWS
    rows = {name: Row(*fields) for name, fields in table.items()}
    files = dict.fromkeys(row.body for row in rows.values() if row.body)
    bodies = {file: importlib.import_module(f"acl._bodies.{file}") for file in files}
    return Face(rows, bodies, vars(importlib.import_module(module)))


def rows_of(module: str) -> dict[str, Row]:
    """The rows of a face module by name."""
    return face_of(module).rows


def body_of(module: str, name: str) -> Callable[..., Any] | None:
    """The body of a function, or None while it has none."""
    face = face_of(module)
    file = face.rows[name].body
    body: Callable[..., Any] | None = getattr(face.bodies[file], name) if file else None
    return body


def implemented(module: str, name: str) -> bool:
    """Whether a function does what it is for (and not only refuses, as those of hardware that no chip row has)."""
    body = body_of(module, name)
    return body is not None and not getattr(body, "refuses", False)
