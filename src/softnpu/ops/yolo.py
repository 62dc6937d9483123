"""Yolo: the raw map of a YOLO head as coordinates, objectness and class scores."""

from __future__ import annotations

from softnpu.ops._lower import Builder, OpError, Site
from softnpu.ops._ranks import ranks
from softnpu.ops._schema import Schema

SCHEMA = Schema(
    "Yolo",
    outputs=("coord_data", "obj_prob", "classes_prob"),
    attrs={
        "boxes": 3,
        "coords": 4,
        "classes": 80,
        "yolo_version": "V3",
        "softmax": False,
        "background": False,
        "softmaxtree": False,
    },
    note="channels come box by box, as networks make them; coord_data is x of all boxes, then y, h, w; rows end in zeros",
)
_ROUND = 16


def padded(size: int) -> int:
    """The length of a row that holds `size` values."""
    return -(-(size + _ROUND) // _ROUND) * _ROUND


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    boxes, coords, classes = (
        int(n.attr(word, value)) for word, value in (("boxes", 3), ("coords", 4), ("classes", 80))
    )
    ranks(n, 4)
    batch, channels, height, width = n.shape()
    if (
        coords != 4
        or channels != boxes * (coords + 1 + classes)
        or min(batch, height, width) < 1
        or n.attr("softmaxtree", False)
    ):
        raise OpError(
            f"Yolo {n.name!r} has {list(n.shape())} for {boxes} boxes of {coords} coords and {classes} classes; there must be "
            "boxes·(coords + 1 + classes) channels, 4 coords, fixed shapes and no softmaxtree"
        )
    cells = height * width
    x = b.transpose(b.reshape(n.input(0), [batch, boxes, coords + 1 + classes, cells]), [0, 2, 1, 3])
    place, size, obj, scores = b.split(x, [2, 2, 1, classes], 1)
    swapped = b.slice(size, [-1], [-3], [1], [-1])  # the height comes before the width
    coord = b.op("Concat", b.op("Sigmoid", place), swapped, axis=1)
    obj, scores = _scores(b, n, obj, scores)
    return (
        _row(b, n, b.reshape(coord, [batch, coords * boxes, cells]), 2, cells),
        _row(b, n, b.reshape(obj, [batch, boxes * cells]), 1, boxes * cells),
        _row(b, n, b.reshape(scores, [batch, classes, boxes * cells]), 2, boxes * cells),
    )


def _scores(b: Builder, n: Site, obj: str, scores: str) -> tuple[str, str]:
    version, softmax, background = (
        str(n.attr("yolo_version", "V3")),
        n.attr("softmax", False),
        n.attr("background", False),
    )
    if version not in ("V2", "V3"):
        raise OpError(f"Yolo {n.name!r} has the version {version!r}; use V2 or V3")
    if version == "V3" or not (softmax or background):
        return str(b.op("Sigmoid", obj)), str(b.op("Sigmoid", scores))
    if not background:
        return str(b.op("Sigmoid", obj)), b.softmax(scores, 1, 4)
    if not softmax:
        return obj, str(b.op("Sigmoid", scores))
    both = b.softmax(str(b.op("Concat", obj, scores, axis=1)), 1, 4)
    first, rest = b.split(both, [1, int(n.attr("classes", 80))], 1)
    return first, rest


def _row(b: Builder, n: Site, x: str, axis: int, size: int) -> str:
    rank = axis + 1
    return b.pad(x, [0] * rank, [0] * axis + [padded(size) - size], dtype=max(n.dtype(), 0))
