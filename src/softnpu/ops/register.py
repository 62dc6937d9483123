"""The register of operators: a CANN type is found by listing the families, and in their tables of rows.

A folder beside this file is a family, `common` apart. A file in it is one operator, named after its type: `SCHEMA` (CANN's
type, names of inputs and outputs, attributes with defaults) and what it means: `lower(b, n)` in ONNX operators and/or
`compute(n, *arrays)` in NumPy; `infer(n)` only where shapes cannot be had from the lowered form. A file may describe several
types that differ in a word: then `SCHEMAS` is a tuple. An operator that has nothing of its own is a row in `rows.py`.
"""

from __future__ import annotations

import importlib
import os
import re
from functools import cache
from types import ModuleType

from softnpu.ops.common.schema import Operator, Row, Schema

_FOLDER = os.path.dirname(__file__)
_PACKAGE = __name__.rpartition(".")[0]
_NO_FAMILIES = frozenset({"common"})
_KEYWORDS = frozenset({"if", "while", "and", "or", "not", "is", "with", "for", "from", "in"})


def file_of(type: str) -> str:
    """The name of the file of a CANN type: SoftmaxV2 → softmax_v2."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type)
    name = re.sub(r"_+", "_", text).lower()
    return f"{name}_" if name in _KEYWORDS else name


@cache
def _listing() -> tuple[dict[str, str], list[str]]:
    """The families that operator files belong to, by file name; and the families with rows. Listed once."""
    families: dict[str, str] = {}
    with_rows: list[str] = []
    for family in sorted(os.listdir(_FOLDER)):
        if family.startswith("_") or "." in family or family in _NO_FAMILIES:
            continue
        for file in os.listdir(f"{_FOLDER}/{family}"):
            if file == "rows.py":
                with_rows.append(family)
            elif file.endswith(".py") and not file.startswith("_"):
                families[file[:-3]] = family
    return families, with_rows


def _module(family: str, name: str) -> ModuleType:
    return importlib.import_module(f"{_PACKAGE}.{family}.{name}")


@cache
def _rows(family: str) -> dict[str, Row]:
    """The rows of a family by their types."""
    return {row.schema.type: row for row in _module(family, "rows").ROWS}


def _schemas(module: ModuleType) -> tuple[Schema, ...]:
    return getattr(module, "SCHEMAS", None) or (module.SCHEMA,)


@cache
def find(type: str) -> Operator | None:
    """The operator of a CANN type, or None."""
    families, with_rows = _listing()
    name = file_of(type)
    if name in families:
        module = _module(families[name], name)
        for schema in _schemas(module):
            if schema.type == type:
                bodies = (getattr(module, body, None) for body in ("lower", "compute", "infer"))
                return Operator(schema, *bodies)
        return None
    for family in with_rows:
        row = _rows(family).get(type)
        if row is not None:
            return Operator(row.schema, row.lower, None, None)
    return None


def types() -> list[str]:
    """Every CANN type that has a file or a row, sorted."""
    families, with_rows = _listing()
    filed = [schema.type for name, family in families.items() for schema in _schemas(_module(family, name))]
    return sorted([*filed, *(type for family in with_rows for type in _rows(family))])
