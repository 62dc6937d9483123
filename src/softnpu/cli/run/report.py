"""What `softnpu run` and `softnpu info` print: tables on a terminal, aligned text in a pipe, JSON for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softnpu import constants
from softnpu.base.config import compute_threads
from softnpu.base.dtypes import numpy_name
from softnpu.base.units import human, plural
from softnpu.cli.run.options import RunOptions
from softnpu.cli.run.session import Result, quantile
from softnpu.graph.om import ModelInfo, TensorInfo
from softnpu.spec._generated.dtypes import DTYPES

_FORMATS = {
    value: name.removeprefix("ACL_FORMAT_") for name, value in vars(constants).items() if name.startswith("ACL_FORMAT_")
}
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Grid:
    """A table: a title, a header, rows of text. Columns after the first `left` stand at the right."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left: int = 1


def type_name(number: int) -> str:
    """A data type for people."""
    return numpy_name(number) or DTYPES.get(number, (f"type {number}",))[0].removeprefix("ACL_").lower()


def format_name(number: int) -> str:
    """A format for people."""
    return _FORMATS.get(number, str(number))


def tensor_grid(info: ModelInfo) -> Grid:
    """Inputs and outputs as a table."""
    rows = [_tensor_row("input", index, tensor) for index, tensor in enumerate(info.inputs)]
    rows += [_tensor_row("output", index, tensor) for index, tensor in enumerate(info.outputs)]
    return Grid("", ("", "#", "name", "type", "format", "dims", "bytes"), rows, left=6)


def _tensor_row(role: str, index: int, tensor: TensorInfo) -> tuple[str, ...]:
    dims = ",".join(_span(dim, axis, tensor) for axis, dim in enumerate(tensor.dims))
    return (
        role,
        str(index),
        tensor.name,
        type_name(tensor.dtype),
        format_name(tensor.format),
        dims,
        str(tensor.size) if tensor.size else "open",
    )


def _span(dim: int, axis: int, tensor: TensorInfo) -> str:
    """A dim, or its range where the model has one."""
    if axis < len(tensor.ranges) and dim < 0:
        low, high = tensor.ranges[axis]
        return f"{low}~{'…' if high < 0 else high}"
    return str(dim)


def tensor_dict(tensor: TensorInfo) -> dict[str, Any]:
    """An input or output for JSON."""
    entry: dict[str, Any] = {
        "name": tensor.name,
        "dtype": type_name(tensor.dtype),
        "format": format_name(tensor.format),
        "dims": tensor.dims,
        "bytes": tensor.size,
    }
    if tensor.ranges:
        entry["ranges"] = [list(pair) for pair in tensor.ranges]
    return entry


# ---- results of a run ------------------------------------------------------------------------------------------------


def summary(times: list[float]) -> dict[str, float]:
    """Mean, extremes and quantiles of times."""
    ordered = sorted(times)
    figures = {"mean": math.fsum(times) / len(times), "min": ordered[0]}
    figures |= {name: quantile(ordered, share) for name, share in SHARES.items()}
    return figures | {"max": ordered[-1]}


def show(result: Result, options: RunOptions) -> None:
    """Print what a run found out."""
    if options.json:
        print(json.dumps(_result_dict(result, options), indent=2, ensure_ascii=False))
        return
    show_lines(_head(result, options))
    draw(tensor_grid(result.info))
    show_lines(_shapes(result))
    stages = {stage: summary(times) for stage, times in result.times.items()}
    columns = tuple(next(iter(stages.values())))
    rows = [(stage, *(f"{value:.3f}" for value in figures.values())) for stage, figures in stages.items()]
    runs = len(result.times["Inference"])
    draw(Grid(f"milliseconds, {runs} run{'s' if runs != 1 else ''}", ("stage", *columns), rows))
    show_lines([("throughput", f"{result.throughput:.2f} samples/s (batch {result.batch})")])
    if result.differences:
        draw(_difference_grid(result, options))
    show_lines([("wrote", str(path)) for path in result.written])


def _head(result: Result, options: RunOptions) -> list[tuple[str, str]]:
    lines = [
        ("model", f"{options.model} ({result.name}, for {result.soc or 'no named chip'})"),
        ("device", f"{options.device} ({result.chip})"),
        ("engine", f"{result.engine}, {plural(compute_threads(), 'thread')}"),
        ("loaded in", f"{result.load_ms:.1f} ms, weights {human(result.info.weight_size)}"),
    ]
    if result.gear is not None:
        lines.append(("gear", f"{result.gear} of {result.info.gears}"))
    if result.random:
        lines.append(("inputs", f"random, seed {options.seed}"))
    return lines


def _shapes(result: Result) -> list[tuple[str, str]]:
    """The shapes of this run, where the description leaves them open."""
    info = result.info
    if not info.gears and all(dim >= 0 for tensor in (*info.inputs, *info.outputs) for dim in tensor.dims):
        return []
    words = [",".join(map(str, shape)) or "scalar" for shape in (*result.input_shapes, *result.output_shapes)]
    count = len(result.input_shapes)
    return [("this run", f"{' | '.join(words[:count])} → {' | '.join(words[count:])}")]


def _difference_grid(result: Result, options: RunOptions) -> Grid:
    rows = [
        (
            difference.name,
            f"{difference.absolute:.3g}",
            f"{difference.relative:.3g}",
            f"{difference.cosine:.8f}",
            f"{difference.tolerance:g}",
            difference.why or ("equal" if difference.equal else "DIFFERENT"),
        )
        for difference in result.differences
    ]
    return Grid(
        f"compared with {options.original}",
        ("output", "max abs error", "max rel error", "cosine", "tolerance", "verdict"),
        rows,
    )


def _result_dict(result: Result, options: RunOptions) -> dict[str, Any]:
    content: dict[str, Any] = {
        "model": str(options.model),
        "name": result.name,
        "soc_version": result.soc,
        "device": options.device,
        "engine": result.engine,
        "load_ms": result.load_ms,
        "inputs": [tensor_dict(tensor) for tensor in result.info.inputs],
        "outputs": [tensor_dict(tensor) for tensor in result.info.outputs],
        "gear": result.gear,
        "input_shapes": result.input_shapes,
        "output_shapes": result.output_shapes,
        "runs": len(result.times["Inference"]),
        "ms": {stage: summary(times) for stage, times in result.times.items()},
        "batch": result.batch,
        "throughput": result.throughput,
        "written": [str(path) for path in result.written],
    }
    if result.differences:
        content["equal"] = result.equal
        content["differences"] = [_difference_dict(difference) for difference in result.differences]
    return content


def _difference_dict(difference: Any) -> dict[str, Any]:
    numbers = {
        "max_abs": difference.absolute,
        "max_rel": difference.relative,
        "cosine": difference.cosine,
        "tolerance": difference.tolerance,
    }
    words = {"name": difference.name, "equal": difference.equal, "why": difference.why}
    return words | {name: value if math.isfinite(value) else None for name, value in numbers.items()}


# ---- drawing ---------------------------------------------------------------------------------------------------------


def show_lines(pairs: Sequence[tuple[str, str]]) -> None:
    for label, text in pairs:
        _print(f"{label:<11} {text}")


def _print(text: str) -> None:
    """Print whatever the encoding of the terminal."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def draw(grid: Grid) -> None:
    """Print a table: drawn on a terminal, aligned columns elsewhere."""
    if sys.stdout.isatty():
        _draw_rich(grid)
        return
    print()
    if grid.title:
        _print(grid.title)
    table = [grid.header, *grid.rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(grid.header))]
    for row in table:
        cells = [_pad(cell, widths[column], column < grid.left) for column, cell in enumerate(row)]
        _print("  ".join(cells).rstrip())


def _pad(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def _draw_rich(grid: Grid) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=grid.title or None, title_justify="left")
    for column, name in enumerate(grid.header):
        table.add_column(name, justify="left" if column < grid.left else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell, "red" if cell == "DIFFERENT" else "") for cell in row))
    Console().print(table)
