"""What a worker is told when it starts, the same for all engines with processes."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from dataclasses import dataclass

from softnpu.base import config
from softnpu.flow.plan import Plan
from softnpu.flow.transport.layout import Layout


@dataclass(frozen=True)
class Surroundings:
    """What a worker takes over of the application, before it loads anything of the program."""

    directory: str
    path: list[str]
    argv0: str
    environment: dict[str, str]
    memory_limit: int  # bytes that it may allocate; 0: no limit

    def take_over(self, environment: dict[str, str], path: list[str]) -> None:
        """Become a process of the application."""
        config.take_environment(environment)
        sys.path[:] = path
        sys.argv = [self.argv0]
        with contextlib.suppress(OSError):  # a directory that is gone by now, or is not there on this machine
            os.chdir(self.directory)

    def limit_memory(self) -> None:
        """From now on more is a MemoryError."""
        if self.memory_limit:
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            limit = self.memory_limit if hard == resource.RLIM_INFINITY else min(self.memory_limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker runs, and how. The plan has only the bodies of its own nodes."""

    process: int
    life: int  # how often it was started before
    plan: Plan
    layout: Layout
    work_path: str
    strict: bool  # a failing function stops its node
    watched: bool  # somebody wants to hear of every call
