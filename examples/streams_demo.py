"""Several streams copying and computing side by side, with a drawn timeline: what `make demo` runs.

A pipeline as an Ascend program writes it: one stream brings batches to the device, one computes on them, one brings the
results back; events keep the order. The same work is then done on one stream alone, for comparison.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import acl
from softnpu.cli import npu_smi
from softnpu.constants import (
    ACL_FLOAT,
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
)
from softnpu.observe.timeline import Recorder, busy_ms, rows, write_chrome_trace

BATCHES = 12
BYTES = 4 << 20
LOOKS = {  # task → colour, block, word
    "MEMCPY_ASYNC": ("cyan", "█", "copy"),
    "REDUCE_ASYNC": ("magenta", "▓", "compute"),
    "EVENT_WAIT": ("grey50", "░", "wait for an event"),
}
IDLE = ("grey23", "·", "idle")


def check(answer):
    """Split `(value, ret)` or `ret` and stop with the recent message when a call failed."""
    value, ret = answer if isinstance(answer, tuple) else (None, answer)
    if ret:
        sys.exit(f"call failed with {ret}: {acl.get_recent_err_msg()}")
    return value


class Pipeline:
    """Buffers for all batches: host input, two device buffers, host output."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.inputs = [rng.standard_normal(BYTES // 4).astype(np.float32) for _ in range(BATCHES)]
        self.offset = rng.standard_normal(BYTES // 4).astype(np.float32)
        self.host_in = [check(acl.rt.malloc_host(BYTES)) for _ in range(BATCHES)]
        self.host_out = [check(acl.rt.malloc_host(BYTES)) for _ in range(BATCHES)]
        self.device = [check(acl.rt.malloc(BYTES, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(BATCHES)]
        self.other = check(acl.rt.malloc(BYTES, ACL_MEM_MALLOC_HUGE_FIRST))
        for pointer, data in zip(self.host_in, self.inputs, strict=True):
            check(acl.rt.memcpy(pointer, BYTES, acl.util.bytes_to_ptr(data.tobytes()), BYTES, 0))
        check(acl.rt.memcpy(self.other, BYTES, acl.util.bytes_to_ptr(self.offset.tobytes()), BYTES, 1))

    def run(self, upload: int, compute: int, download: int) -> float:
        """Send all batches through the three streams (which may be one and the same); milliseconds."""
        arrived = [check(acl.rt.create_event()) for _ in range(BATCHES)]
        done = [check(acl.rt.create_event()) for _ in range(BATCHES)]
        start = time.perf_counter()
        for i in range(BATCHES):
            check(acl.rt.memcpy_async(self.device[i], BYTES, self.host_in[i], BYTES, ACL_MEMCPY_HOST_TO_DEVICE, upload))
            check(acl.rt.record_event(arrived[i], upload))
            check(acl.rt.stream_wait_event(compute, arrived[i]))
            check(
                acl.rt.reduce_async(
                    self.device[i], self.other, BYTES, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, compute, 0
                )
            )
            check(acl.rt.record_event(done[i], compute))
            check(acl.rt.stream_wait_event(download, done[i]))
            check(
                acl.rt.memcpy_async(self.host_out[i], BYTES, self.device[i], BYTES, ACL_MEMCPY_DEVICE_TO_HOST, download)
            )
        for stream in (upload, compute, download):
            check(acl.rt.synchronize_stream(stream))
        elapsed = (time.perf_counter() - start) * 1000
        for event in (*arrived, *done):
            check(acl.rt.destroy_event(event))
        return elapsed

    def verify(self) -> None:
        """Compare every batch with numpy."""
        for pointer, data in zip(self.host_out, self.inputs, strict=True):
            got = np.frombuffer(acl.util.ptr_to_bytes(pointer, BYTES), np.float32)
            if not np.array_equal(got, data + self.offset):
                sys.exit("the result differs from numpy's")

    def free(self) -> None:
        """Give everything back."""
        for pointer in (*self.host_in, *self.host_out):
            check(acl.rt.free_host(pointer))
        for pointer in (*self.device, self.other):
            check(acl.rt.free(pointer))


def best(pipeline: Pipeline, streams: list[int]) -> tuple[float, Recorder]:
    """The quickest of a few runs, since the machine has other things to do; every run is verified."""
    runs = []
    for _ in range(5):
        with Recorder() as recorder:
            runs.append((pipeline.run(*streams), recorder))
        pipeline.verify()
    return min(runs, key=lambda run: run[0])


def draw(console: Console, title: str, recorder: Recorder) -> None:
    """The timeline of a run, a line per stream."""
    width = max(30, min(100, console.width - 24))
    lanes, total = rows(recorder.spans, width)
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
    for label, cells in lanes:
        line = Text()
        for name in cells:
            colour, block, _ = LOOKS.get(name, IDLE)
            line.append(block, style=colour)
        table.add_row(label, line)
    table.add_row("", Text(f"0 ms{' ' * (width - 4 - len(f'{total:.1f} ms'))}{total:.1f} ms", style="dim"))
    console.print(table)


def show_mistake(console: Console) -> None:
    """What the checker says about a program that frees twice."""
    pointer = check(acl.rt.malloc(4096, ACL_MEM_MALLOC_HUGE_FIRST))
    check(acl.rt.free(pointer))
    ret = acl.rt.free(pointer)
    console.print(f"[bold]A mistake, and what you are told:[/] acl.rt.free(pointer) a second time answers {ret}")
    console.print(Text(acl.get_recent_err_msg() or "", style="dim"))


def main() -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="also write the timeline as a file for ui.perfetto.dev")
    options = parser.parse_args()
    console = Console(highlight=False)

    check(acl.init())
    check(acl.rt.set_device(0))
    console.print(
        f"[bold]softnpu[/]: {acl.get_soc_name()}, {check(acl.rt.get_device_count())} devices, no NPU needed\n"
    )
    pipeline = Pipeline()
    streams = [check(acl.rt.create_stream()) for _ in range(3)]
    pipeline.run(*streams)  # warm up: first touch of the memory
    overlapped, together = best(pipeline, streams)
    serial, alone = best(pipeline, streams[:1] * 3)

    work = busy_ms(working(together))
    title = f"{BATCHES} batches through three streams: {overlapped:.1f} ms for {work:.1f} ms of work"
    draw(console, title, together)
    console.print(Text.assemble(*((f"{block} {name}   ", colour) for colour, block, name in (*LOOKS.values(), IDLE))))
    console.print()
    draw(console, f"the same on one stream: {serial:.1f} ms", alone)
    console.print(f"\nAll results equal numpy's. Overlap gained a factor of [bold]{serial / overlapped:.2f}[/].\n")
    if options.trace:
        write_chrome_trace(together.spans, options.trace)
        console.print(f"Timeline written to {options.trace}; open it at ui.perfetto.dev\n")

    show_mistake(console)
    console.print("\n[bold]npu-smi info[/] sees this program while it runs:")
    sys.stdout.flush()
    npu_smi.main(["info"])

    for stream in streams:
        check(acl.rt.destroy_stream(stream))
    pipeline.free()
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    return 0


def working(recorder: Recorder) -> list:
    """Spans that are work, not waiting."""
    return [span for span in recorder.spans if span.name in ("MEMCPY_ASYNC", "REDUCE_ASYNC")]


if __name__ == "__main__":
    sys.exit(main())
