"""NonMaxSuppressionV4: the places of the best boxes that do not overlap too much, filled up with 0, and how many they are."""

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Shape, Site
from softnpu.ops.common.inputs import ints
from softnpu.ops.common.numbers import FLOAT, INT32
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "NonMaxSuppressionV4",
    ("boxes", "scores", "max_output_size?", "iou_threshold", "score_threshold"),
    ("selected_indices", "valid_outputs"),
    {"pad_to_max_output_size": False},
    note="max_output_size is a constant, or an attribute as in NPUNmsV4; always filled up",
)


def _most(n: Site) -> int:
    most = int(n.need("max_output_size")) if "max_output_size" in n.attrs else ints(n, 2, 1)[0]
    if most < 0:
        raise OpError(f"NonMaxSuppressionV4 {n.name!r} has max_output_size {most}; it must not be negative")
    return most


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    return [(INT32, (_most(n),)), (INT32, ())]


def lower(b: Builder, n: Site) -> tuple[str, str]:
    by_attribute, most = "max_output_size" in n.attrs, _most(n)
    boxes, scores = (b.cast(n.input(index), FLOAT) for index in (0, 1))
    limits = [b.cast(b.reshape(n.input(index), [1]), FLOAT) for index in ((2, 3) if by_attribute else (3, 4))]
    limit = b.const(np.array([most], np.int64))
    selected = b.op("NonMaxSuppression", b.unsqueeze(boxes, [0]), b.unsqueeze(scores, [0, 1]), limit, *limits)
    places = b.cast(str(b.op("Gather", selected, b.const(2), axis=1)), INT32)
    filled = b.op("Concat", places, b.const(np.zeros(most, np.int32)), axis=0)
    count = b.cast(b.reshape(str(b.op("Shape", places)), []), INT32)
    return b.slice(str(filled), [0], [most], [0]), count
