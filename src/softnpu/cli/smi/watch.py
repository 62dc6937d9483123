"""`npu-smi info watch` and `proc`: plain rows per period for scripts, a live view for people at a terminal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from softnpu.cli.smi.collect import Snapshot, megabytes

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Sampler = Callable[[Snapshot | None], Snapshot]
History = dict[int, deque[int]]

LIVE_PERIOD_S = 0.5
HISTORY = 120
_SPARKS = "▁▂▃▄▅▆▇█"
_PLAIN_SPARKS = " .:-=+*#"


def stream(sample: Sampler, render: Callable[[Snapshot | None], str], period: float, count: int | None) -> None:
    """Write the heading, then the rows of every period until interrupted or `count` periods have passed."""
    _write(render(None))
    snapshot: Snapshot | None = None
    done = 0
    while count is None or done < count:
        if done:
            time.sleep(period)
        snapshot = sample(snapshot)
        _write(render(snapshot))
        done += 1


def _write(text: str) -> None:
    # Flushed each time: what reads this through a pipe waits for the next row, not for a full buffer.
    sys.stdout.write(text)
    sys.stdout.flush()


def can_show_live() -> bool:
    """Whether stdout is a terminal that can be drawn on and rich is installed."""
    if not sys.stdout.isatty():
        return False
    try:
        from rich.console import Console
    except ImportError:
        sys.stderr.write("The live view needs rich: pip install rich. Plain rows follow.\n")
        return False
    return not Console().is_dumb_terminal


def show_live(sample: Sampler, count: int | None = None, console: Console | None = None) -> None:
    """Draw devices and processes until q or Ctrl-C; the terminal is as before afterwards."""
    from rich.console import Console
    from rich.live import Live

    console = console or Console()
    history: History = {}
    snapshot = sample(None)
    done = 0
    with _signals(), _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while count is None or done < count:
            remember(history, snapshot)
            live.update(view(snapshot, history, console), refresh=True)
            done += 1
            if "q" in pressed(LIVE_PERIOD_S).lower():
                return
            snapshot = sample(snapshot)


def remember(history: History, snapshot: Snapshot) -> None:
    """Add the AI Core use of every device to its history."""
    for device in snapshot.devices:
        history.setdefault(device.info.index, deque(maxlen=HISTORY)).append(device.aicore)


def view(snapshot: Snapshot, history: History, console: Console) -> RenderableType:
    """The picture of one moment."""
    from rich.console import Group
    from rich.text import Text

    unicode = "utf" in console.encoding.lower()
    head = Text.assemble(
        ("npu-smi ", "bold"), (snapshot.version, "bold"), f"   {time.strftime('%H:%M:%S')}   ",
        ("simulated devices: power and temperature are constants   q quits", "dim"),
    )  # fmt: skip
    room = max(10, min(HISTORY, console.width - 78))
    return Group(head, _devices(snapshot, history, room, unicode), _processes(snapshot))


def _devices(snapshot: Snapshot, history: History, room: int, unicode: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED if unicode else box.ASCII, title="Devices", title_justify="left", title_style="bold")
    for name in ("Id", "Name"):
        table.add_column(name, no_wrap=True)
    table.add_column("Memory", no_wrap=True)
    table.add_column("MB", no_wrap=True, justify="right")
    table.add_column("AI Core", no_wrap=True, justify="right")
    table.add_column("history", no_wrap=True, min_width=room)  # or the table would grow with it
    for device in snapshot.devices:
        table.add_row(
            str(device.info.index),
            device.soc.short_name,
            Text(bar(device.memory_percent, 16, unicode), style=_colour(device.memory_percent)),
            f"{device.used_mb}/{device.total_mb}",
            Text(f"{device.aicore}%", style=_colour(device.aicore)),
            Text(spark(history.get(device.info.index, deque()), room, unicode), style="cyan"),
        )
    return table


def _processes(snapshot: Snapshot) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    rows = [(device, row) for device in snapshot.devices for row in device.processes]
    if not rows:
        return Text("No running processes.", style="dim")
    table = Table(box=None, title="Processes", title_justify="left", title_style="bold", header_style="dim")
    for name, right in (
        ("Device", True), ("Pid", True), ("Name", False), ("MB", True), ("Peak MB", True), ("AI Core", True),
        ("Streams", True), ("Tasks", True),
    ):  # fmt: skip
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for device, row in rows:
        # As Text: a process may call itself something that rich would take for markup.
        numbers = (row.used_mb, megabytes(row.peak), f"{row.aicore}%", row.streams, row.tasks)
        table.add_row(str(device.info.index), str(row.pid), Text(row.name), *(str(number) for number in numbers))
    return table


def bar(part: int, width: int, unicode: bool = True) -> str:
    """A percentage as a bar of fixed width."""
    full = round(part * width / 100)
    if part and not full:
        full = 1
    return ("█" if unicode else "#") * full + ("░" if unicode else ".") * (width - full)


def spark(values: deque[int], width: int, unicode: bool = True) -> str:
    """The latest percentages as a line of small columns."""
    signs = _SPARKS if unicode else _PLAIN_SPARKS
    return "".join(signs[min(len(signs) - 1, value * len(signs) // 100)] for value in list(values)[-width:])


def _colour(part: int) -> str:
    return "green" if part < 60 else "yellow" if part < 90 else "red"


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    # A terminal left on its alternate screen is unusable, so a polite kill leaves through the same door as Ctrl-C.
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits some seconds for keys; where stdin is no terminal it only waits."""
    try:
        import termios
        import tty

        handle = sys.stdin.fileno() if sys.stdin.isatty() else -1
    except (ImportError, AttributeError, OSError, ValueError):
        handle = -1
    if handle < 0:
        yield _just_wait
        return

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([handle], [], [], seconds)
        # Nothing to read although ready: the terminal has gone, and so do we.
        return (os.read(handle, 64).decode("ascii", "ignore") or "q") if ready else ""

    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        yield pressed
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _just_wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""
