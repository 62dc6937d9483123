"""Dumps: the tensors of operators written to files as they run, all of them or only where something overflows.

A `Dump` is one configuration (the `dump` section of `acl.init` or `acl.mdl.set_dump`). It looks on through `base/watch`. A
node is one kernel here, so the three values of `dump_level` mean the same.
"""

from __future__ import annotations

import csv
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softnpu.base.log import ERROR, WARNING, log, no_line
from softnpu.base.watch import NodeRun
from softnpu.observe import _dump_file as content
from softnpu.runtime.parts import Part
from softnpu.runtime.process import Process
from softnpu.runtime.watchers import Watchers

Chunk = dict[str, Any]
Callback = Callable[[Chunk], object]
_CHUNK_BYTES = 4 << 20
_NO_EFFECT = ("dump_scene", "dump_kernel_data")


class DumpControl(Part):
    """What a program switched on: the dumps that run, where they go, and whether `init_dump` is in force."""

    def __init__(self) -> None:
        self.started = False
        self.callback: tuple[Callback, int] | None = None  # takes the files, with its flag
        self.running: list[Dump] = []


@dataclass(frozen=True)
class _Choice:
    """An entry of `dump_list`: a model, or every model; some of its nodes, or all."""

    model: str
    layers: frozenset[str]

    def takes_model(self, names: frozenset[str]) -> bool:
        return not self.model or self.model in names


def _choices(section: dict[str, Any]) -> list[_Choice]:
    listed = [entry for entry in section.get("dump_list", ()) if entry]
    return [_Choice(entry.get("model_name", ""), frozenset(entry.get("layer", ()))) for entry in listed]


def _steps(text: str) -> list[range]:
    """`0|3-5|10` as ranges; none of them means every iteration."""
    steps = []
    for part in text.split("|") if text else ():
        low, _, high = part.partition("-")
        steps.append(range(int(low), int(high or low) + 1))
    return steps


class Dump:
    """A watcher that writes files below `dump_path`, or hands them to a callback of the program."""

    def __init__(self, section: dict[str, Any], control: DumpControl) -> None:
        self._control = control
        self._choices = [] if section.get("dump_scene") else _choices(section)
        self._mode = section.get("dump_mode", "output")
        self._statistics = section.get("dump_data", "tensor") == "stats"
        self._steps = _steps(section.get("dump_step", ""))
        self._operators = section.get("dump_op_switch") == "on"
        self._overflow = section.get("dump_debug") == "on"
        self._root = Path(section.get("dump_path", ".")).absolute() / time.strftime("%Y%m%d%H%M%S")
        self._taken: dict[str, list[_Choice]] = {}
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call
        self._last_us = 0
        self.open = True

    @property
    def idle(self) -> bool:
        """Whether there is nothing to write ever."""
        return not (self._choices or self._operators or self._overflow)

    # ---- as a watcher ------------------------------------------------------------------------------------------------

    def wants_model(self, names: frozenset[str]) -> bool:
        """Whether a model of these names is to be dumped."""
        return self.open and (self._overflow or any(choice.takes_model(names) for choice in self._choices))

    def wants_operators(self) -> bool:
        """Whether single operators are to be dumped."""
        return self.open and (self._overflow or self._operators)

    def meets(self, names: frozenset[str], nodes: frozenset[str]) -> None:
        """Note what to take of a model, and say which layers it does not have."""
        taken = [choice for choice in self._choices if choice.takes_model(names)]
        for name in names:
            self._taken[name] = taken
        missing = sorted(frozenset().union(*(choice.layers for choice in taken)) - nodes)
        if missing:
            text = (
                f"the model {'/'.join(sorted(names))} has no layer named {', '.join(missing)}; nothing is dumped for it"
            )
            log().write(WARNING, text, "DUMP", "load", no_line("dump.py"))

    def saw(self, run: NodeRun) -> None:
        """Write what the configuration asks for."""
        if not self.open:
            return
        if self._overflow:
            self._write_overflow(run)
        elif self._wants(run):
            self._write(run, self._mode)

    def _wants(self, run: NodeRun) -> bool:
        if not run.model:
            return self._operators
        if self._steps and not any(run.iteration in steps for steps in self._steps):
            return False
        known = {run.name, *run.origin}
        return any(not choice.layers or choice.layers & known for choice in self._taken.get(run.model, ()))

    # ---- files -------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        """Microseconds; never the same twice, since they tell files apart."""
        with self._lock:
            self._last_us = max(self._last_us + 1, time.time_ns() // 1000)
            return self._last_us

    def _folder(self, run: NodeRun) -> Path:
        folder = self._root / str(max(run.device, 0))
        if run.model:
            folder = folder / content.safe(run.model) / str(run.model_id) / str(run.iteration)
        return folder

    def _write(self, run: NodeRun, mode: str) -> None:
        now = self._now()
        suffix = ".csv" if self._statistics else ""
        name, full = content.file_name(run.type, run.name, run.task, max(run.stream, 0), now, suffix)
        pieces: Iterable[bytes] = (
            [content.statistics(run, mode)] if self._statistics else content.tensors(run, mode, now)
        )
        self._store(self._folder(run) / name, pieces)
        if full and self._control.callback is None:
            with self._lock, (self._folder(run) / "mapping.csv").open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow([name, full])

    def _write_overflow(self, run: NodeRun) -> None:
        status = content.overflow_status(run)
        if not status:
            return
        text = f"{run.type} {run.name} overflowed (status {status:#x}): finite inputs gave inf or nan"
        log().write(WARNING, text, "DUMP", "overflow", no_line("dump.py"))
        self._write(run, "all")
        now = self._now()
        name, _ = content.file_name("OpDebug", "Node_Opdebug", 0, max(run.stream, 0), now)
        self._store(self._folder(run) / name, content.overflow_record(run, status, now))

    def _store(self, path: Path, pieces: Iterable[bytes]) -> None:
        callback = self._control.callback
        if callback is not None:
            _hand_over(*callback, path, b"".join(pieces))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{os.getpid()}.{threading.get_ident()}.part")
        try:
            with part.open("wb") as file:
                file.writelines(pieces)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _hand_over(function: Callback, flag: int, path: Path, data: bytes) -> None:
    """Give a file to the program in chunks."""
    ends = range(0, max(len(data), 1), _CHUNK_BYTES)
    for offset in ends:
        piece = data[offset : offset + _CHUNK_BYTES]
        chunk: Chunk = {
            "file_name": str(path),
            "data_buf": piece,
            "buf_len": len(piece),
            "is_last_chunk": int(offset == ends[-1]),
            "offset": offset,
            "flag": flag,
        }
        try:
            function(chunk)
        except (Exception, SystemExit) as error:
            text = f"the dump callback raised {type(error).__name__}: {error}"
            log().write(ERROR, text, "DUMP", "dump_callback", no_line("dump.py"))


# ---- switching on and off --------------------------------------------------------------------------------------------


def configure(process: Process, section: dict[str, Any]) -> None:
    """Dump from now on as a checked `dump` section says; models that are loaded already keep what they had."""
    watchers = process.part(Watchers).looking
    watchers[:] = [watcher for watcher in watchers if not isinstance(watcher, Dump)]
    for key in _NO_EFFECT:
        if key in section:
            text = f"dump.{key} of the configuration is read, but this version of softnpu does not act on it"
            log().write(WARNING, text, "DUMP", "configure")
    control = process.part(DumpControl)
    dump = Dump(section, control)
    if not dump.idle:
        watchers.append(dump)
        control.running.append(dump)


def stop(process: Process) -> None:
    """End all dumping, of loaded models, too."""
    watchers = process.part(Watchers).looking
    watchers[:] = [watcher for watcher in watchers if not isinstance(watcher, Dump)]
    control = process.part(DumpControl)
    ended, control.running = control.running, []
    for dump in ended:
        dump.open = False


def set_callback(process: Process, callback: Callback | None, flag: int = 0) -> None:
    """Hand dumps to a function of the program instead of writing files; None ends it."""
    process.part(DumpControl).callback = None if callback is None else (callback, flag)
