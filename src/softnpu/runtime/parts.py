"""Parts of the process object: what other rooms keep with it, looked up by type.

A part is made once, when it is first asked for, and is gone after `acl.finalize`; a forked child has a new process object
and so none. Whoever must know that a device goes, or that something was never given back, says so by overriding a method:
being in the table is the only registration, so an exception of a signal handler cannot leave half of one behind.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from softnpu.runtime.device import Device

PartT = TypeVar("PartT", bound="Part")


class Part:
    """State that lives in the process object."""

    @classmethod
    def of(cls: type[PartT], owner: Any) -> PartT:
        """A new part of this process object; takes no locks, since it is called under one."""
        return cls()

    def finalize(self) -> None:
        """`acl.finalize` begins; contexts and memory are still there."""

    def sweep(self, device: Device) -> None:
        """The memory of a device goes: let go of what is held there without an address."""

    def leaks(self, device: Device | None) -> list[str]:
        """A line for each thing that was never given back, on one device or at all."""
        return []


class Parts:
    """The parts of one process object, in the order in which they were made."""

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._by_type: dict[type[Part], Part] = {}
        self._making = threading.RLock()  # a destructor or a signal handler may ask for a part while one is made

    def get(self, kind: type[PartT]) -> PartT:
        """The part of this type, made on first use."""
        part = self._by_type.get(kind)
        return part if part is not None else self._make(kind)  # type: ignore[return-value]

    def peek(self, kind: type[PartT]) -> PartT | None:
        """The part of this type if there is one."""
        return self._by_type.get(kind)  # type: ignore[return-value]

    def _make(self, kind: type[PartT]) -> PartT:
        with self._making:
            part = self._by_type.get(kind)
            if part is None:  # whoever comes here while it is made puts one in before: then that one stays
                part = self._by_type.setdefault(kind, kind.of(self._owner))
            return part  # type: ignore[return-value]

    def all(self) -> tuple[Part, ...]:
        """All parts, oldest first."""
        return tuple(self._by_type.values())

    def clear(self) -> None:
        """Forget them."""
        self._by_type.clear()
