"""Where boxes go: layers by the longest way from the inputs, few crossings, bands when a graph is long."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from softnpu.flow.watch.sketch import OUTPUT, Sketch

GAP_X, GAP_Y = 64.0, 22.0
_LANE = 12.0  # between lines that go side by side from one band to the next
_SWEEPS = 12
_WIDEST = 2200.0
_LOOK = 1.6  # width to height that a picture of several bands should have
_MOST_LINES = 3  # that a break between bands may cut
_ALIGNED = 2  # layers that an output may be moved to stand with the others at the end


@dataclass
class Spot:
    """A box, or a place where a long line passes a layer (`box` -1)."""

    box: int
    layer: int
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0  # the middle
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)


@dataclass
class Arrangement:
    """Spots by number; the first ones are the boxes. `ways` are the spots that each line passes."""

    spots: list[Spot]
    layers: list[list[int]]
    ways: list[list[int]]
    band_of: list[int]
    tops: list[float]  # where the room above each band begins, for lines that come down to it
    width: float = 0.0
    height: float = 0.0


def arrange(sketch: Sketch, sizes: list[tuple[float, float]]) -> Arrangement:
    """Place everything."""
    layer = _layers(sketch)
    spots = [Spot(box, layer[box], *size) for box, size in enumerate(sizes)]
    ways = [_way(spots, line.start, line.end) for line in sketch.lines]
    layers: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for number, spot in enumerate(spots):
        layers[spot.layer].append(number)
    _order(spots, layers)
    bands = _bands(spots, layers)
    arrangement = Arrangement(spots, layers, ways, [0] * len(layers), [])
    _place(arrangement, bands)
    return arrangement


def _layers(sketch: Sketch) -> list[int]:
    """The longest way from an input; outputs of the graph stand together at the end, unless that is far away."""
    count = len(sketch.boxes)
    layer = [0] * count
    waiting = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for line in sketch.lines:
        waiting[line.end] += 1
        after[line.start].append(line.end)
    ready = [box for box in range(count) if not waiting[box]]
    while ready:
        box = ready.pop()
        for end in after[box]:
            layer[end] = max(layer[end], layer[box] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                ready.append(end)
    for box in range(count):  # inputs stand just before who reads them first
        if not any(line.end == box for line in sketch.lines) and after[box]:
            layer[box] = min(layer[end] for end in after[box]) - 1
    last = max(layer, default=0)
    return [
        last if box.kind == OUTPUT and last - at <= _ALIGNED else at
        for box, at in zip(sketch.boxes, layer, strict=True)
    ]


def _way(spots: list[Spot], start: int, end: int) -> list[int]:
    """From box to box with a spot in every layer between."""
    way = [start]
    for layer in range(spots[start].layer + 1, spots[end].layer):
        spots.append(Spot(-1, layer))
        way.append(len(spots) - 1)
    way.append(end)
    for first, second in itertools.pairwise(way):
        spots[first].after.append(second)
        spots[second].before.append(first)
    return way


def _crossings(spots: list[Spot], layers: list[list[int]]) -> int:
    total = 0
    for layer in layers[:-1]:
        position = {number: at for at, number in enumerate(layers[spots[layer[0]].layer + 1])} if layer else {}
        ends = [position[end] for number in layer for end in sorted(spots[number].after, key=position.__getitem__)]
        total += sum(upper > lower for at, upper in enumerate(ends) for lower in ends[at + 1 :])
    return total


def _order(spots: list[Spot], layers: list[list[int]]) -> None:
    """Each spot near the middle of its neighbours, back and forth; the best order that was seen stays."""
    best, fewest = [list(layer) for layer in layers], _crossings(spots, layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        forward = sweep % 2 == 0
        for layer in layers if forward else layers[::-1]:
            position = {number: at for other in layers for at, number in enumerate(other)}
            middle = {}
            for number in layer:
                near = spots[number].before if forward else spots[number].after
                middle[number] = sum(position[each] for each in near) / len(near) if near else float(position[number])
            layer.sort(key=middle.__getitem__)
        crossings = _crossings(spots, layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _widths(spots: list[Spot], layers: list[list[int]]) -> list[float]:
    return [max((spots[number].width for number in layer), default=0.0) + GAP_X for layer in layers]


def _height(spots: list[Spot], layer: list[int]) -> float:
    return sum(spots[number].height + GAP_Y for number in layer)


def _bands(spots: list[Spot], layers: list[list[int]]) -> list[list[int]]:
    """Layers in rows: one, unless the picture would be much wider than a page and can be cut without cutting many lines."""
    widths = _widths(spots, layers)
    total = sum(widths)
    if total <= _WIDEST:
        return [list(range(len(layers)))]
    tall = max(_height(spots, layer) for layer in layers) + 5 * GAP_Y
    row = max(_WIDEST * 0.5, (total * tall * _LOOK) ** 0.5, max(widths))
    rows = max(1, round(total / row))
    cuts = {at: _cut(spots, layers[at]) for at in range(1, len(layers))}
    ends = [sum(widths[:at]) for at in range(len(layers))]
    chosen = set()
    for number in range(1, rows):
        near = [at for at, lines in cuts.items() if lines <= _MOST_LINES]
        ideal = total * number / rows
        near = [at for at in near if abs(ends[at] - ideal) < row / 2]
        if near:
            chosen.add(min(near, key=lambda at: (cuts[at], abs(ends[at] - ideal))))
    bands: list[list[int]] = [[]]
    for layer in range(len(layers)):
        if layer in chosen:
            bands.append([])
        bands[-1].append(layer)
    return bands


def _cut(spots: list[Spot], layer: list[int]) -> int:
    """Lines that a break before a layer would cut."""
    return sum(len(spots[number].before) for number in layer)


def _place(arrangement: Arrangement, bands: list[list[int]]) -> None:
    spots, layers = arrangement.spots, arrangement.layers
    widths = _widths(spots, layers)
    for band, mine in enumerate(bands):
        for layer in mine:
            arrangement.band_of[layer] = band
    _middles(arrangement)
    top = 0.0
    for band, mine in enumerate(bands):
        numbers = [number for layer in mine for number in layers[layer]]
        down = sum(arrangement.band_of[spots[number].layer] != band for number in _arriving(arrangement, mine))
        arrangement.tops.append(top)
        top += _LANE * (down + 1) if band else 0.0
        shift = top - min(spots[number].y - spots[number].height / 2 for number in numbers)
        x = _LANE * (down + 1) if band else 0.0
        for layer in mine:
            for number in layers[layer]:
                spots[number].y += shift
                spots[number].x = x + (widths[layer] - GAP_X) / 2
            x += widths[layer]
        arrangement.width = max(arrangement.width, x - GAP_X)
        top = max(spots[number].y + spots[number].height / 2 for number in numbers) + GAP_Y
    arrangement.height = top - GAP_Y


def _arriving(arrangement: Arrangement, band: list[int]) -> list[int]:
    """Spots before the first layer of a band, once for each line."""
    return [before for number in arrangement.layers[band[0]] for before in arrangement.spots[number].before]


def _middles(arrangement: Arrangement) -> None:
    """Heights: begin stacked, then everything moves towards its neighbours as far as its layer lets it."""
    spots = arrangement.spots
    for layer in arrangement.layers:
        y = -_height(spots, layer) / 2
        for number in layer:
            spots[number].y = y + (spots[number].height + GAP_Y) / 2
            y += spots[number].height + GAP_Y
    for sweep in range(24):
        for layer in arrangement.layers if sweep % 2 == 0 else arrangement.layers[::-1]:
            wished = []
            for number in layer:
                spot = spots[number]
                near = [
                    spots[each].y
                    for each in (spot.before if sweep % 2 == 0 else spot.after) or spot.before or spot.after
                    if arrangement.band_of[spots[each].layer] == arrangement.band_of[spot.layer]
                ]
                wished.append(sum(near) / len(near) if near else spot.y)
            _settle(spots, layer, wished)


def _settle(spots: list[Spot], layer: list[int], wished: list[float]) -> None:
    """The nearest heights to the wishes that keep order and distance: neighbours that collide share their middle."""
    groups: list[tuple[float, int, list[float]]] = []  # sum of wishes, members, offsets from the first
    distance = 0.0
    for at, number in enumerate(layer):
        if at:
            distance += (spots[layer[at - 1]].height + spots[number].height) / 2 + GAP_Y
        total, members, offsets = wished[at] - distance, 1, [distance]
        while groups and groups[-1][0] / groups[-1][1] > total / members:
            other = groups.pop()
            total, members, offsets = other[0] + total, other[1] + members, other[2] + offsets
        groups.append((total, members, offsets))
    numbers = iter(layer)
    for total, members, offsets in groups:
        for offset in offsets:
            spots[next(numbers)].y = total / members + offset
