"""The picture of a graph as SVG: one file, no script, nothing from elsewhere; it follows a dark desktop."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from softnpu.flow.watch.arrange import GAP_X, Arrangement, arrange
from softnpu.flow.watch.sketch import INPUT, OUTPUT, Box, Line, Sketch
from softnpu.flow.watch.words import shortened, width

_MARGIN = 24.0
_TITLE = 34.0
_PAD = 14.0
_NAME, _SMALL = 14.6, 11.3  # bold letters are wider
_ROW = 16.0
_PORT = 16.0
_WIDEST_TEXT = 230.0
_LANE = 12.0
_BEND = 7.0

_STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;fill:#1f2328}
.name{font-size:13px;font-weight:600}.small{font-size:11px;fill:#59636e}.number{font-size:11px;fill:#1f2328}
.title{font-size:15px;font-weight:600}.alarm{fill:#cf222e;font-weight:600}
.paper{fill:#ffffff}.box{fill:#f6f8fa;stroke:#d1d9e0}.behind{fill:#f6f8fa;stroke:#d1d9e0}
.line{fill:none;stroke:#8c959f;stroke-width:1.4}.head{fill:#8c959f}.rule{stroke:#d1d9e0}
.function{fill:#0969da}.model{fill:#8250df}.npu_model{fill:#1a7f37}.input,.output{fill:#9a6700}
.label{font-size:10px;fill:#59636e;paint-order:stroke;stroke:#ffffff;stroke-width:3px}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}.number{fill:#e6edf3}.alarm{fill:#ff7b72}
.paper{fill:#0d1117}.box{fill:#151b23;stroke:#3d444d}.behind{fill:#151b23;stroke:#3d444d}
.line{stroke:#7d8590}.head{fill:#7d8590}.rule{stroke:#3d444d}
.function{fill:#4493f8}.model{fill:#ab7df8}.npu_model{fill:#3fb950}.input,.output{fill:#d29922}
.label{fill:#9198a1;stroke:#0d1117}}
"""


def svg(sketch: Sketch) -> str:
    """The whole file."""
    arrangement = arrange(sketch, [_size(box) for box in sketch.boxes])
    drawn = _lines(sketch, arrangement)
    across = max([arrangement.width, *(x for way in drawn for x, _ in way)])
    total = max(across, width(sketch.name, 15)) + 2 * _MARGIN
    tall = arrangement.height + 2 * _MARGIN + _TITLE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{tall:.0f}" '
        f'viewBox="0 0 {total:.0f} {tall:.0f}" role="img" aria-label={quoteattr("DataFlow graph " + _clean(sketch.name))}>',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0.5 8 4 0 7.5z"/></marker></defs>',
        f'<rect class="paper" width="{total:.0f}" height="{tall:.0f}"/>',
        _text(_MARGIN, _MARGIN + 15, "title", sketch.name),
        f'<g transform="translate({_MARGIN:g} {_MARGIN + _TITLE:g})">',
    ]
    parts += [f'<path class="line" marker-end="url(#end)" d="{_curve(way)}"/>' for way in drawn]
    parts += [_label(line, way) for line, way in zip(sketch.lines, drawn, strict=True) if line.label]
    parts += [_box(box, arrangement, number) for number, box in enumerate(sketch.boxes)]
    return "\n".join([*parts, "</g>", "</svg>", ""])


# ---- boxes ---------------------------------------------------------------------------------------------------------------


def _kind(box: Box) -> str:
    return box.kind + (f" × {box.instances}" if box.instances > 1 else "")


def _plain(box: Box) -> bool:
    """Inputs and outputs of the graph are small."""
    return box.kind in (INPUT, OUTPUT)


def _size(box: Box) -> tuple[float, float]:
    rows = [*box.lines, *box.numbers, *([] if _plain(box) else [_kind(box)])]
    texts = [width(box.name, _NAME), *(width(row, _SMALL) for row in rows)]
    across = min(max(texts), _WIDEST_TEXT) + 2 * _PAD
    tall = 2 * 10 + _ROW * (1 + len(rows)) + (6 if box.numbers else 0)
    if _plain(box):
        return across, tall - 4
    return max(across, 110.0), max(tall, _PORT * (max(box.inputs, box.outputs) + 0.5))


def _box(box: Box, arrangement: Arrangement, number: int) -> str:
    spot = arrangement.spots[number]
    left, top = spot.x - spot.width / 2, spot.y - spot.height / 2
    frame = f'width="{spot.width:.1f}" height="{spot.height:.1f}"'
    parts = [f"<g><title>{_escaped(_about(box))}</title>"]
    for behind in range(min(box.instances, 3) - 1, 0, -1):
        shift = 4 * behind
        parts.append(f'<rect class="behind" x="{left + shift:.1f}" y="{top + shift:.1f}" {frame} rx="8"/>')
    round_ = spot.height / 2 if _plain(box) else 8
    parts.append(f'<rect class="box" x="{left:.1f}" y="{top:.1f}" {frame} rx="{round_:g}"/>')
    x, y = left + _PAD, top + 10 + 12
    if not _plain(box):
        parts.append(
            f'<rect class="{box.kind}" x="{left:.1f}" y="{top + 8:.1f}" width="3" height="{spot.height - 16:.1f}"/>'
        )
    parts.append(_text(x, y, "name", shortened(box.name, _WIDEST_TEXT, _NAME)))
    if not _plain(box):
        y += _ROW
        parts.append(_text(x, y, f"small {box.kind}", _kind(box)))
    for line in box.lines:
        y += _ROW
        parts.append(_text(x, y, "small", shortened(line, _WIDEST_TEXT, _SMALL)))
    if box.numbers:
        parts.append(f'<path class="rule" d="M{x:.1f} {y + 7:.1f}H{left + spot.width - _PAD:.1f}"/>')
        y += 6
    for line in box.numbers:
        y += _ROW
        kind = "number alarm" if box.alarm and line is box.numbers[-1] else "number"
        parts.append(_text(x, y, kind, shortened(line, _WIDEST_TEXT, _SMALL)))
    return "".join([*parts, "</g>"])


def _about(box: Box) -> str:
    return "\n".join([f"{box.name}: {_kind(box)}", *box.lines, *box.numbers])


def _text(x: float, y: float, kind: str, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{_escaped(text)}</text>'


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(
        each if each in "\n\t" or (each >= " " and not "\ud800" <= each <= "\udfff") else "?" for each in text
    )


def _escaped(text: str) -> str:
    return escape(_clean(text))


# ---- lines ---------------------------------------------------------------------------------------------------------------

Point = tuple[float, float]


def _lines(sketch: Sketch, arrangement: Arrangement) -> list[list[Point]]:
    """The points of each line; the way between bands is square, all else is curved."""
    lanes = _lanes(arrangement)
    drawn = []
    for line, way in zip(sketch.lines, arrangement.ways, strict=True):
        points: list[Point] = []
        for at, (first, second) in enumerate(itertools.pairwise(way)):
            start = _leave(sketch, arrangement, line, first, at == 0)
            end = _enter(sketch, arrangement, line, second, at == len(way) - 2)
            if (
                arrangement.band_of[arrangement.spots[first].layer]
                == arrangement.band_of[arrangement.spots[second].layer]
            ):
                # straight to the edge of the layer: its other boxes may be wider
                points += [
                    start,
                    (_edge(arrangement, first, 1), start[1]),
                    (_edge(arrangement, second, -1), end[1]),
                    end,
                ]
            else:
                points += _around(arrangement, start, end, second, *lanes[first, second])
        drawn.append(points)
    return drawn


def _lanes(arrangement: Arrangement) -> dict[tuple[int, int], tuple[int, int]]:
    """For each pair of spots on both sides of a break: which lane it takes, of how many."""
    breaks: dict[int, list[tuple[int, int]]] = {}
    for way in arrangement.ways:
        for first, second in itertools.pairwise(way):
            band = arrangement.band_of[arrangement.spots[second].layer]
            if band != arrangement.band_of[arrangement.spots[first].layer] and (first, second) not in breaks.setdefault(
                band, []
            ):
                breaks[band].append((first, second))
    lanes = {}
    for pairs in breaks.values():
        pairs.sort(key=lambda pair: (-arrangement.spots[pair[0]].y, -arrangement.spots[pair[1]].y))
        lanes.update({pair: (at, len(pairs)) for at, pair in enumerate(pairs)})
    return lanes


def _port(sketch: Sketch, arrangement: Arrangement, number: int, index: int, count: int) -> float:
    spot = arrangement.spots[number]
    return spot.y - spot.height / 2 + spot.height * (index + 1) / (count + 1)


def _half(arrangement: Arrangement, number: int) -> float:
    """Half the width of a spot; a line that passes a layer goes straight through all of it."""
    spot = arrangement.spots[number]
    return spot.width / 2 if spot.box >= 0 else abs(_edge(arrangement, number, 1) - spot.x)


def _edge(arrangement: Arrangement, number: int, side: int) -> float:
    """Where the layer of a spot ends."""
    spot = arrangement.spots[number]
    return spot.x + side * max(arrangement.spots[each].width for each in arrangement.layers[spot.layer]) / 2


def _leave(sketch: Sketch, arrangement: Arrangement, line: Line, number: int, first: bool) -> Point:
    y = (
        _port(sketch, arrangement, number, line.output, sketch.boxes[line.start].outputs)
        if first
        else arrangement.spots[number].y
    )
    return arrangement.spots[number].x + _half(arrangement, number), y


def _enter(sketch: Sketch, arrangement: Arrangement, line: Line, number: int, last: bool) -> Point:
    y = (
        _port(sketch, arrangement, number, line.input, sketch.boxes[line.end].inputs)
        if last
        else arrangement.spots[number].y
    )
    return arrangement.spots[number].x - _half(arrangement, number), y


def _around(arrangement: Arrangement, start: Point, end: Point, spot: int, lane: int, lanes: int) -> list[Point]:
    """From the end of a band to the beginning of the next one."""
    band = arrangement.band_of[arrangement.spots[spot].layer]
    before = [
        number for at, layer in enumerate(arrangement.layers) if arrangement.band_of[at] == band - 1 for number in layer
    ]
    right = (
        max(arrangement.spots[number].x + _half(arrangement, number) for number in before) + GAP_X / 4 + _LANE * lane
    )
    y = arrangement.tops[band] + _LANE * (lane + 0.5) - 4
    left = _LANE * lane
    return [start, (right, start[1]), (right, y), (left, y), (left, end[1]), end]


def _curve(points: Sequence[Point]) -> str:
    """Curved where a line goes up or down on its way, square where it turns back to the next band."""
    points = [point for at, point in enumerate(points) if not at or point != points[at - 1]]
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    at = 0
    while at < len(points) - 1:
        (x1, y1), (x2, y2) = points[at], points[at + 1]
        corners = points[at : at + 6]
        if len(corners) == 6 and corners[1][0] == corners[2][0] and corners[3][0] < corners[2][0]:
            parts += _square(corners)
            at += 5
        elif y1 == y2:
            parts.append(f"H{x2:.1f}")
            at += 1
        else:
            middle = (x1 + x2) / 2
            parts.append(f"C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}")
            at += 1
    return "".join(parts)


def _square(points: Sequence[Point]) -> list[str]:
    """Straight lines with round corners."""
    parts = []
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        into, out = _towards(corner, before), _towards(corner, after)
        parts.append(f"L{into[0]:.1f} {into[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {out[0]:.1f} {out[1]:.1f}")
    return [*parts, f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"]


def _towards(corner: Point, other: Point) -> Point:
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = abs(dx) + abs(dy) or 1.0
    part = min(_BEND, length / 2) / length
    return corner[0] + dx * part, corner[1] + dy * part


def _label(line: Line, way: Sequence[Point]) -> str:
    x, y = way[-1]
    return _text(x - width(line.label, 10) - 10, y - 5, "label", line.label)
