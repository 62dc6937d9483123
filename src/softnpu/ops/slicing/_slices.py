"""Strided slices with TensorFlow's five masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.inputs import int64

FAR = np.iinfo(np.int64).max
MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}


@dataclass
class _Plan:
    """What a specification means for the dims of x: which places of it cut which axis, where dims go and come."""

    places: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)  # axes of x that are indexed with one number
    fresh: list[int] = field(default_factory=list)  # places of the result that are new dims


def _plan(n: Site, count: int) -> _Plan:
    masks = {name: int(n.attr(name, 0)) for name in MASKS}
    ellipsis = [position for position in range(count) if masks["ellipsis_mask"] >> position & 1]
    if len(ellipsis) > 1:
        raise OpError(f"{n.type} {n.name!r} has {len(ellipsis)} ellipses; one at most is possible")
    plan = _Plan()
    axis = result = 0
    for position in range(count):
        bit = 1 << position
        if position in ellipsis:
            after = sum(1 for later in range(position + 1, count) if not masks["new_axis_mask"] >> later & 1)
            skipped = n.rank(0) - axis - after
            axis, result = axis + skipped, result + skipped
        elif masks["new_axis_mask"] & bit:
            plan.fresh.append(result)
            result += 1
        else:
            plan.places.append(position)
            plan.axes.append(axis)
            if masks["shrink_axis_mask"] & bit:
                plan.gone.append(axis)
            else:
                result += 1
            axis += 1
    if n.input_shapes[0] is not None and axis > n.rank(0):
        raise OpError(f"{n.type} {n.name!r} cuts {axis} dims of a tensor that has {n.rank(0)}")
    return plan


def strided(b: Builder, n: Site, begin: Sequence[int], end: Sequence[int], strides: Sequence[int]) -> str:
    """The slice for a specification that is known."""
    if not len(begin) == len(end) == len(strides):
        raise OpError(
            f"{n.type} {n.name!r} has {len(begin)} begins, {len(end)} ends and {len(strides)} strides; give equally many"
        )
    if any(step == 0 for step in strides):
        raise OpError(f"{n.type} {n.name!r} has the strides {list(strides)}; none may be 0")
    plan = _plan(n, len(begin))
    begin_mask, end_mask = int(n.attr("begin_mask", 0)), int(n.attr("end_mask", 0))
    cuts = []
    for position, axis in zip(plan.places, plan.axes, strict=True):
        first, last, step = begin[position], end[position], strides[position]
        if axis in plan.gone:
            first, last, step = first, first + 1 if first != -1 else FAR, 1
        else:
            first = (0 if step > 0 else FAR) if begin_mask >> position & 1 else first
            last = (FAR if step > 0 else -FAR) if end_mask >> position & 1 else last
        if (first, last, step) != (0, FAR, 1):
            cuts.append((first, last, axis, step))
    x = n.input(0)
    if cuts:
        starts, ends, axes, steps = zip(*cuts, strict=True)
        x = b.slice(x, starts, ends, axes, steps if any(step != 1 for step in steps) else None)
    return _reshape(b, x, plan)


def computed(b: Builder, n: Site, strides: Sequence[int]) -> str:
    """The slice for begins and ends that are known at run time only."""
    plan = _plan(n, len(strides))
    if not plan.places:
        return _reshape(b, n.input(0), plan)
    rows = b.const(np.array(plan.places, np.int64))
    begin, end = (b.op("Gather", int64(b, n, index), rows, axis=0) for index in (1, 2))
    steps = [
        1 if axis in plan.gone else strides[position] for position, axis in zip(plan.places, plan.axes, strict=True)
    ]
    begins = _mask(b, begin, n.attr("begin_mask", 0), plan, [0 if step > 0 else FAR for step in steps])
    ends = _mask(b, end, n.attr("end_mask", 0), plan, [FAR if step > 0 else -FAR for step in steps])
    if plan.gone:
        single = b.const(np.array([axis in plan.gone for axis in plan.axes]))
        last = b.op("Equal", begin, b.const(np.array(-1, np.int64)))
        after = b.op(
            "Where", last, b.const(np.array(FAR, np.int64)), b.op("Add", begin, b.const(np.array(1, np.int64)))
        )
        begins = str(b.op("Where", single, begin, begins))
        ends = str(b.op("Where", single, after, ends))
    axes, numbers = b.const(np.array(plan.axes, np.int64)), b.const(np.array(steps, np.int64))
    return _reshape(b, str(b.op("Slice", n.input(0), begins, ends, axes, numbers)), plan)


def _mask(b: Builder, bounds: str, mask: int, plan: _Plan, instead: list[int]) -> str:
    open_ends = np.array([bool(int(mask) >> position & 1) for position in plan.places])
    if not open_ends.any():
        return bounds
    return str(b.op("Where", b.const(open_ends), b.const(np.array(instead, np.int64)), bounds))


def _reshape(b: Builder, x: str, plan: _Plan) -> str:
    if plan.gone:
        x = b.squeeze(x, plan.gone)
    if plan.fresh:
        x = b.unsqueeze(x, plan.fresh)
    return x
