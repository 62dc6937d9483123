"""Names of nodes and of everything else: unique by construction, from any thread."""

from __future__ import annotations

import threading


class Names:
    """One namespace: a name that is taken gets the next free number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def make(self, wanted: str) -> str:
        """The wanted name, or `wanted_1`, `wanted_2` …"""
        with self._lock:
            name = wanted
            number = self._next.get(wanted, 1)
            while name in self._taken:
                name = f"{wanted}_{number}"
                number += 1
            self._next[wanted] = number
            self._taken.add(name)
            return name

    def claim(self, name: str) -> None:
        """Take exactly this name; ValueError when it is taken."""
        with self._lock:
            if name in self._taken:
                raise ValueError(f"{name!r} is already the name or alias of another node")
            self._taken.add(name)

    def release(self, name: str) -> None:
        """Let others have the name."""
        with self._lock:
            self._taken.discard(name)

    def restart(self) -> None:
        """Forget everything."""
        with self._lock:
            self._taken.clear()
            self._next.clear()


nodes = Names()
others = Names()


def restart() -> None:
    """Automatic names begin anew."""
    nodes.restart()
    others.restart()


def check(name: object, what: str) -> str:
    """A name that a program gave."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} is a str, not {type(name).__name__}")
    return name
