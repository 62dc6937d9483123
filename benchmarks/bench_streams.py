"""Two streams with work that needs no GIL, against one stream with half of it; and what a task costs."""

from __future__ import annotations

import threading

import numpy as np
from _tools import Result, interleaved, loop

import acl

BYTES, TASKS, FLOAT16, MAX = 1 << 20, 6, 1, 11


def results() -> list[Result]:
    """Measure."""
    acl.init()
    acl.rt.set_device(0)
    streams = [acl.rt.create_stream()[0] for _ in range(2)]
    pairs = [(acl.rt.malloc(BYTES, 0)[0], acl.rt.malloc(BYTES, 0)[0]) for _ in streams]

    def work(count: int) -> None:
        for stream, (left, right) in zip(streams[:count], pairs, strict=False):
            for _ in range(TASKS):
                acl.rt.reduce_async(left, right, BYTES, MAX, FLOAT16, stream, 0)
        for stream in streams[:count]:
            acl.rt.synchronize_stream(stream)

    # The same arithmetic in plain threads: what this machine's two cores give at best.
    arrays = [(np.zeros(BYTES // 2, np.float16), np.zeros(BYTES // 2, np.float16)) for _ in streams]

    def plain(count: int) -> None:
        def run(pair: tuple[np.ndarray, np.ndarray]) -> None:
            for _ in range(TASKS):
                pair[0][...] = np.maximum(*pair)

        group = [threading.Thread(target=run, args=(pair,)) for pair in arrays[:count]]
        for thread in group:
            thread.start()
        for thread in group:
            thread.join()

    one, two, plain_one, plain_two = interleaved(
        lambda: work(1), lambda: work(2), lambda: plain(1), lambda: plain(2), rounds=15
    )
    event = acl.rt.create_event()[0]
    record, sync = interleaved(
        loop(lambda: acl.rt.record_event(event, streams[0]), 2000),
        loop(lambda: acl.rt.synchronize_stream(streams[0]), 2000),
    )
    for stream in streams:
        acl.rt.destroy_stream(stream)
    acl.rt.reset_device(0)
    acl.finalize()
    return [
        *_overlap(one, two, plain_one, plain_two),
        Result("record_event on an idle stream", f"{record / 2000 * 1e6:.2f} µs", "–", "–", "–", True),
        Result("synchronize_stream, idle", f"{sync / 2000 * 1e6:.2f} µs", "–", "–", "–", True),
    ]


def _overlap(one: float, two: float, plain_one: float, plain_two: float) -> list[Result]:
    """Rows of the seconds of one and of two streams, and of one and of two plain threads."""
    return [
        Result(
            "two streams, work on each",
            f"{two * 1000:.1f} ms",
            f"one stream alone {one * 1000:.1f} ms",
            f"{two / one:.2f}",
            "≤ 1.20",
            two / one <= 1.2,
        ),
        Result(
            "  plain threads on this machine",
            f"{plain_two * 1000:.1f} ms",
            f"one thread alone {plain_one * 1000:.1f} ms",
            f"{plain_two / plain_one:.2f}",
            "–",
            True,
        ),
    ]
