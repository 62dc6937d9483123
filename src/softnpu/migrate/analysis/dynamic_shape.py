"""`dynamic_shape`: a copy of a project whose run tells which operators see changing shapes."""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from softnpu.migrate.analysis.analyse import parse
from softnpu.migrate.reading.names import Names
from softnpu.migrate.reading.source import Source
from softnpu.migrate.reading.tree import copy_file, copy_link, scan
from softnpu.migrate.reporting.reports import write_template
from softnpu.migrate.rewriting.device import is_entry
from softnpu.migrate.rewriting.edits import EditList
from softnpu.migrate.rewriting.placement import Placer

PACKAGE = "ascend_dynamic_shape"


def write_hooked_copy(source: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Copy a project and let its entry files import the hooks; returns these files, and why others cannot be read."""
    tree = scan(source, frozenset({folder, folder.parent} - {source}))
    for inner in tree.folders:
        (folder / inner).mkdir(parents=True, exist_ok=True)
    entries, unread = [], []
    for relative in (*tree.python, *tree.others, *tree.untouched):
        copy_file(tree, relative, folder)
    for relative in tree.python:
        module, error = parse(folder / relative)
        if error:
            unread.append(f"{relative}: {error}")
        if module is not None and _hook(folder / relative, module):
            entries.append(str(relative))
    for link in tree.links:
        copy_link(tree, link, folder)
    write_template(PACKAGE, folder / PACKAGE)
    return entries, unread


def _hook(path: Path, module: cst.Module) -> bool:
    names = Names(module)
    if not is_entry(names):
        return False
    source = Source.read(path)
    edits = EditList(source.text.encode())
    Placer(names, edits, source.newline).after_imports([f"import {PACKAGE}"], "")
    if not edits.edits:
        return False
    path.write_bytes(source.encode(edits.apply().decode()))
    return True
