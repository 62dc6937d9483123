"""Channels that end while something is under way: nothing hangs, nothing is left behind, nobody is forgotten."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import acl
from softnpu.base.errors import NpuError
from softnpu.media.v1.vdec import VdecChannelDesc
from softnpu.media.v2 import coder
from softnpu.media.v2.coder import Coder
from softnpu.media.v2.sys.system import Registry
from softnpu.media.v2.vpc import channel as vpc
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.runtime.process import process
from tests.faces.acl.media.v1.video_support import Vdec
from tests.support import WAIT, in_thread, ok

NO_MEM, UNEXIST = 0x0C, 0x05
MOMENT = 0.2


def number_of(error: NpuError) -> int:
    return error.code & 0x7FFF


class Slow:
    """A function that begins, and ends when it is told to."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> Any:
        self.begun.set()
        assert self.may_end.wait(WAIT)


class Worker(Coder):
    """A channel whose work is a function."""

    module = "vdec"

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.finished = threading.Event()

    def work(self, item: Any) -> list[Any]:
        item()
        return [item]

    def failed(self, item: Any, error: Exception) -> list[Any]:
        return [error]

    def finish(self) -> None:
        self.finished.set()

    def send(self, item: Any) -> None:
        with self.changed:
            self.put(item)


# ---- creating while a device goes ------------------------------------------------------------------------------------


def test_a_sweep_does_not_wait_for_a_channel_of_media_that_is_being_created(runtime: None) -> None:
    """Creating takes the lock of the device for a stream, and a sweep has that lock."""
    with Vdec():  # the book exists
        make, device = Slow(), process().current().device
        context = ok(acl.rt.get_context())

        def fail(number: int) -> Any:
            make()
            raise NpuError(1, f"no channel {number}")

        def create() -> None:
            ok(acl.rt.set_context(context))
            with contextlib.suppress(NpuError):
                VdecChannelDesc().create(4, 3, fail)

        thread = threading.Thread(target=create, daemon=True)
        thread.start()
        assert make.begun.wait(WAIT)
        in_thread(lambda: process().sweep_device(device), 5)
        make.may_end.set()
        thread.join(WAIT)


def test_a_sweep_does_not_wait_for_a_channel_of_himpi_that_is_being_created(himpi: None) -> None:
    registry: Registry[Any] = Registry("vdec")
    make = Slow()
    thread = threading.Thread(target=registry.open, args=(0, make), daemon=True)
    thread.start()
    assert make.begun.wait(WAIT)
    assert in_thread(lambda: registry.take_all(None), 5) == []
    make.may_end.set()
    thread.join(WAIT)


def test_a_destructor_inside_the_creation_of_a_channel(himpi: None) -> None:
    """A garbage collection may run the program's destructors in the middle of any call."""
    registry: Registry[Any] = Registry("vdec")
    first, second = Worker(), Worker()
    registry.open(1, lambda: first)
    in_thread(lambda: registry.open(0, lambda: (registry.take(1), second)[1]), 5)
    assert registry.living() == [0] and registry.get(0) is second


# ---- channels of himpi that end --------------------------------------------------------------------------------------


def test_no_thread_for_a_channel(himpi: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The send fails with a code, and works once the machine has threads again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker, done = Worker(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NpuError) as caught:
            worker.send(done.set)
    assert number_of(caught.value) == NO_MEM and not worker.waiting
    worker.send(done.set)
    assert done.wait(WAIT)
    worker.close()


def test_a_worker_that_outlives_its_channel_gives_everything_back(himpi: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coder, "_END_SECONDS", 0.05)
    worker, work = Worker(), Slow()
    fd = worker.ready.fd
    worker.send(work)
    assert work.begun.wait(WAIT)
    worker.close()
    assert not worker.finished.is_set()
    work.may_end.set()
    assert worker.finished.wait(WAIT) and not worker.results
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_a_channel_destroyed_by_its_own_worker(himpi: None) -> None:
    """As a destructor of the program does that a garbage collection runs there."""
    worker, failures = Worker(), []

    def work() -> None:
        try:
            worker.close()
        except Exception as error:
            failures.append(error)

    worker.send(work)
    assert worker.finished.wait(WAIT) and not failures


def test_a_task_that_waits_for_room_when_the_channel_is_destroyed(himpi: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused: nothing may begin in a channel that has ended, its memory may be gone."""
    monkeypatch.setattr(vpc, "MOST_WAITING", 1)
    channel = VpcChannel(0, process().current().device)
    work, later = Slow(), threading.Event()
    channel.submit(work, 0, inline=False)
    assert work.begun.wait(WAIT)
    caught: list[NpuError] = []

    def submit() -> None:
        try:
            channel.submit(later.set, -1, inline=False)
        except NpuError as error:
            caught.append(error)

    threads = [threading.Thread(target=submit, daemon=True), threading.Thread(target=channel.close, daemon=True)]
    for thread in threads:
        thread.start()
        time.sleep(MOMENT)  # the first waits for room before the second destroys the channel
    work.may_end.set()
    for thread in threads:
        thread.join(WAIT)
    assert [number_of(error) for error in caught] == [UNEXIST] and not later.is_set()


def test_a_vpc_channel_destroyed_inside_its_own_task(himpi: None) -> None:
    channel = VpcChannel(0, process().current().device)
    began = time.monotonic()
    in_thread(lambda: channel.submit(channel.close, 0, inline=True), WAIT)
    assert time.monotonic() - began < 5


# ---- channels of media whose device or process ends ------------------------------------------------------------------


def test_a_device_waits_for_pictures_that_are_being_written(runtime: None) -> None:
    """Its memory goes when it is reset: a picture that is on its way there is written before."""
    vdec = Vdec()
    channel = next(obj for _, kind, obj in process().handles.live() if kind == "vdec_channel_desc").channel
    written = threading.Event()
    channel.later(lambda: (time.sleep(MOMENT), written.set())[1])
    ok(acl.rt.reset_device(0))
    assert written.is_set()
    vdec.reporter.close()


def test_a_process_waits_for_a_picture_that_is_being_written(tmp_path: Path) -> None:
    """A thread that stands inside a library when the interpreter goes can take the process with it."""
    lines = """
        import os, sys, time, acl
        from tests.faces.acl.media.v1.video_support import Vdec
        from softnpu.runtime.process import process
        acl.init(), acl.rt.set_device(0)
        vdec = Vdec()
        desc = next(obj for _, kind, obj in process().handles.live() if kind == "vdec_channel_desc")
        desc.channel.later(lambda: (time.sleep(0.8), os.write(1, b"written"))[1])
        sys.exit(7)
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(lines), encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (7, "written", "")
