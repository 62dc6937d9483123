"""malloc, free and look-up with 10³, 10⁵ and 10⁶ live allocations: the cost per call must not grow faster than log n."""

from __future__ import annotations

import math
import random
import statistics
import time

from _tools import Result

import acl

SIZES = (1_000, 100_000, 1_000_000)
SAMPLE = 500
ROUNDS = 25


def _per_call(function, items) -> float:
    start = time.perf_counter()
    for item in items:
        function(item)
    return (time.perf_counter() - start) / len(items)


def _round(live: list[int], rng: random.Random) -> tuple[float, float, float]:
    chosen = [pointer + rng.randrange(32) for pointer in rng.sample(live, SAMPLE)]
    look = _per_call(acl.rt.pointer_get_attributes, chosen)
    allocated: list[int] = []
    allocate = _per_call(
        lambda size: allocated.append(acl.rt.malloc(size, 0)[0]), [rng.randrange(1, 100) for _ in range(SAMPLE)]
    )
    indices = rng.sample(range(len(live)), SAMPLE)
    victims = [live[index] for index in indices]
    free = _per_call(acl.rt.free, victims)
    for index, pointer in zip(indices, allocated, strict=True):
        live[index] = pointer
    return allocate, free, look


def results() -> list[Result]:
    """Measure."""
    rng = random.Random(1)
    acl.init()
    acl.rt.set_device(0)
    live: list[int] = []
    costs: dict[int, list[float]] = {}
    for size in SIZES:
        while len(live) < size:
            live.append(acl.rt.malloc(rng.randrange(1, 100), 0)[0])
        rounds = [_round(live, rng) for _ in range(ROUNDS)]
        costs[size] = [statistics.median(values) for values in zip(*rounds, strict=True)]
    for pointer in live:
        acl.rt.free(pointer)
    acl.rt.reset_device(0)
    acl.finalize()
    rows = []
    for index, name in enumerate(("malloc", "free", "look-up")):
        base = costs[SIZES[0]][index]
        for size in SIZES:
            cost = costs[size][index]
            allowed = math.log(size) / math.log(SIZES[0])
            wish = f"≤ {allowed:.2f} (log n)" if size > SIZES[0] else "–"
            rows.append(
                Result(
                    f"{name}, {size:,} live",
                    f"{cost * 1e6:.2f} µs",
                    f"{base * 1e6:.2f} µs at {SIZES[0]:,}",
                    f"{cost / base:.2f}",
                    wish,
                    cost / base <= allowed,
                )
            )
    return rows
