"""`visualize`: a graph as SVG, as text for Graphviz, or as text for Mermaid."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softnpu.flow import codes
from softnpu.flow.drawing.process_point import MODEL
from softnpu.flow.errors import DfException
from softnpu.flow.watch.metrics import Metrics, Row
from softnpu.flow.watch.sketch import INPUT, OUTPUT, Box, Sketch, sketch
from softnpu.flow.watch.svg import svg
from softnpu.flow.watch.words import duration, rate, share

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph

_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


def visualize(graph: FlowGraph, path: str | os.PathLike[str] | None = None, fmt: str = "") -> str:
    """The picture as text, and in a file where a path is given; the form goes by the file's name unless `fmt` says it."""
    form = fmt or (_SUFFIXES.get(Path(path).suffix.lower(), "") if path is not None else "svg")
    if form not in ("svg", "dot", "mermaid"):
        raise DfException(
            f"visualize: {fmt or os.fspath(path or '')!r} is no known form; use svg, dot or mermaid, or a file that ends "
            f"in {', '.join(_SUFFIXES)}.",
            codes.PARAM_INVALID,
        )
    text = render(sketch(graph), form, graph.metrics())
    if path is not None:
        _write(Path(path), text)
    return text


def render(drawn: Sketch, form: str, metrics: Metrics | None = None) -> str:
    """A sketch in one of the forms, with live numbers if the graph runs."""
    if metrics is not None:
        _enliven(drawn, metrics)
    if form == "svg":
        return svg(drawn)
    return dot(drawn) if form == "dot" else mermaid(drawn)


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _enliven(drawn: Sketch, metrics: Metrics) -> None:
    rows: dict[str, list[Row]] = {}
    for row in metrics.rows():
        rows.setdefault(row.node, []).append(row)
    for box in drawn.boxes:
        mine = rows.get(box.name)
        if mine and box.kind not in (INPUT, OUTPUT):
            box.instances = len(mine)
            box.numbers = _numbers(mine)
            failures = sum(row.failures for row in mine)
            if failures:
                box.numbers.append(f"{failures:,} failed")
                box.alarm = True


def _numbers(rows: list[Row]) -> list[str]:
    calls = sum(row.calls for row in rows)
    busy = [row.busy for row in rows if row.busy is not None]
    average = sum(busy) / len(busy) if busy else None
    slowest = max(row.call_p99 for row in rows)
    return [
        f"{calls:,} calls · {rate(sum(row.rate for row in rows))}",
        f"busy {share(average)} · queue {sum(row.queue for row in rows)} · p99 {duration(slowest)}",
    ]


def dot(drawn: Sketch) -> str:
    """For Graphviz."""
    lines = [
        f"digraph {_quoted(drawn.name)} {{",
        "  rankdir=LR;",
        '  node [shape=box, style=rounded, fontname="sans"];',
    ]
    for number, box in enumerate(drawn.boxes):
        shape = ", shape=ellipse" if box.kind in (INPUT, OUTPUT) else ", shape=component" if box.kind == MODEL else ""
        lines.append(f"  n{number} [label={_quoted(chr(10).join(_texts(box)))}{shape}];")
    for line in drawn.lines:
        ports = _ports(drawn, line.start, line.output, line.end, line.input)
        label = ", ".join(each for each in (ports, line.label) if each)
        lines.append(f"  n{line.start} -> n{line.end}" + (f" [label={_quoted(label)}]" if label else "") + ";")
    return "\n".join([*lines, "}", ""])


def mermaid(drawn: Sketch) -> str:
    """For Mermaid, which many pages with Markdown draw."""
    lines = ["flowchart LR"]
    for number, box in enumerate(drawn.boxes):
        text = "<br/>".join(_entities(each) for each in _texts(box))
        opening, closing = (
            ("([", "])") if box.kind in (INPUT, OUTPUT) else ("[[", "]]") if box.kind == MODEL else ("[", "]")
        )
        lines.append(f'  n{number}{opening}"{text}"{closing}')
    for line in drawn.lines:
        ports = _ports(drawn, line.start, line.output, line.end, line.input)
        label = ", ".join(each for each in (ports, line.label) if each)
        lines.append(f"  n{line.start} --" + (f'>|"{_entities(label)}"| ' if label else "> ") + f"n{line.end}")
    return "\n".join([*lines, ""])


def _texts(box: Box) -> list[str]:
    kind = [] if box.kind in (INPUT, OUTPUT) else [box.kind + (f" × {box.instances}" if box.instances > 1 else "")]
    return [box.name, *kind, *box.lines, *box.numbers]


def _ports(drawn: Sketch, start: int, output: int, end: int, index: int) -> str:
    """Which output goes into which input, where there is a choice."""
    source, target = drawn.boxes[start], drawn.boxes[end]
    left = str(output) if source.outputs > 1 else ""
    right = str(index) if target.inputs > 1 else ""
    return f"{left or 0} → {right or 0}" if left or right else ""


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'


def _entities(text: str) -> str:
    special: dict[Any, str] = {each: f"#{ord(each)};" for each in '"#<>&`|'}
    return "".join(special.get(each, each) for each in text)
