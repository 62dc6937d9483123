"""Who looks on while operators run (`base/watch`), kept with the process object so that `acl.finalize` ends it."""

from __future__ import annotations

from softnpu.base.watch import Watcher
from softnpu.runtime.parts import Part


class Watchers(Part):
    """Those who look, in the order in which they came."""

    def __init__(self) -> None:
        self.looking: list[Watcher] = []
