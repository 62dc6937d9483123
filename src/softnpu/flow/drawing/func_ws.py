"""The command `create_func_ws`: start a UDF project from a line that names its functions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from softnpu.flow.drawing import workspace
from softnpu.flow.functions import work
from softnpu.flow.plan import Function

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PORT = re.compile(r"([io])(\d{1,5})", re.ASCII)
_NAMES_IN_CLASS = 4


def parse(text: str) -> tuple[Function, ...]:
    """`"Sub:i0:i2:o0,Add:i1:i3:o1"`: functions, each with its inputs and outputs."""
    functions = tuple(_function(part.strip()) for part in text.split(","))
    names = [each.name for each in functions]
    if len(set(names)) != len(names):
        raise ValueError(f"a function is there twice: {', '.join(names)}")
    work.check_indexes("the project", functions)
    return functions


def _function(part: str) -> Function:
    name, *ports = part.split(":")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a function: letters, digits and _ are expected")
    numbers: dict[str, list[int]] = {"i": [], "o": []}
    for port in ports:
        match = _PORT.fullmatch(port)
        if match is None:
            raise ValueError(f"{port!r} of {name} is neither an input like i0 nor an output like o0")
        numbers[match[1]].append(int(match[2]))
    if not numbers["i"] or not numbers["o"]:
        raise ValueError(f"{name} needs at least one input and one output: {name}:i0:o0")
    return Function(name, tuple(numbers["i"]), tuple(numbers["o"]))


class FuncWsCreator:
    """What a project will be, and the writing of it."""

    def __init__(self, functions: str, clz_name: str | None = None, workspace_dir: str | None = None) -> None:
        self.functions = parse(functions)
        titles = [each.name[:1].upper() + each.name[1:] for each in self.functions[:_NAMES_IN_CLASS]]
        self.clz_name = clz_name or "".join(titles)
        if not _NAME.fullmatch(self.clz_name):
            raise ValueError(f"{self.clz_name!r} is no name of a class")
        self.workspace = Path(workspace_dir or workspace.folder_of(self.clz_name))

    def generate(self) -> list[Path]:
        """Write the project; gives its files."""
        return workspace.write_project(self.workspace, self.clz_name, self.functions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, then write."""
    parser = argparse.ArgumentParser("create_func_ws", description="Start a DataFlow function project.")
    parser.add_argument("-f", "--functions", required=True, help='like "Sub:i0:i2:o0,Add:i1:i3:o1"')
    parser.add_argument("-c", "--clz_name", help="name of the class; by default made of the functions' names")
    parser.add_argument("-w", "--workspace", help="directory; by default ./<class>_ws")
    parsed = parser.parse_args(arguments)
    creator = FuncWsCreator(parsed.functions, parsed.clz_name, parsed.workspace)
    answer = input(
        f"Files will be written to {creator.workspace.resolve()} (existing ones are replaced). Continue? [y/yes] "
    )
    if answer.strip().lower() not in ("y", "yes"):
        print("Nothing was written.")
        return 1
    for path in creator.generate():
        print(path)
    return 0
