"""`atc --singleop`: every operator of a file becomes a model of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from softnpu.compiler.build import BuildResult, Progress, quiet
from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface.model_info import describe_model
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Shapes
from softnpu.compiler.single_op.description import SingleOp
from softnpu.compiler.single_op.files import read
from softnpu.compiler.single_op.graph import to_graph
from softnpu.compiler.write import write


def build_single_ops(options: Options, progress: Progress = quiet) -> BuildResult:
    """Convert every operator of a --singleop file to a model of its own in the folder --output."""
    result = BuildResult()
    operators = read(Path(options.singleop))
    folder = Path(options.output)
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".singleop.{os.getpid()}"
    try:
        for index, operator in enumerate(operators):
            progress(f"compiling {operator.op}", index / len(operators))
            try:
                _write_single(operator, part / operator.file_name(index), options)
            except AtcError as error:
                error.args = (f"element {index} ({operator.op}): {error.message}",)
                error.message = error.args[0]
                raise
        for index, operator in enumerate(operators):  # all of them or none
            path = folder / operator.file_name(index)
            (part / path.name).replace(path)
            result.files.append(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if fresh and not any(folder.iterdir()):
            folder.rmdir()
    progress("done", 1.0)
    return result


def _write_single(operator: SingleOp, path: Path, options: Options) -> None:
    graph = to_graph(operator)
    graph.name = operator.op
    info = describe_model(graph, Shapes())
    info.run.single_op = operator.key()
    write(graph, info, path, options, check=True)
