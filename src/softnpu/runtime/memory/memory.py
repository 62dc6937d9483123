"""Memory of the process. This is the door from addresses to bytes: nothing above `runtime/` looks at memory except through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softnpu.runtime.backends.base import Backend
from softnpu.runtime.memory.allocator import Allocator
from softnpu.runtime.memory.atlas import Atlas
from softnpu.runtime.memory.copies import Copies
from softnpu.runtime.memory.reach import Addresses
from softnpu.runtime.memory.registered import Registered
from softnpu.runtime.memory.views import Views

if TYPE_CHECKING:
    from softnpu.base.config import Settings
    from softnpu.runtime.device import Device


class Memory:
    """Who gives memory out, what may be touched, what is copied; each is a part, and other rooms call it here."""

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self.backend = backend
        self.atlas = Atlas()
        self.addresses = Addresses(self.atlas)
        self.pins = self.addresses.pins
        self.allocator = Allocator(self.addresses, backend)
        self.copies = Copies(self.addresses, backend)
        self.registered = Registered(self.addresses)
        self.configure(settings)
        # The names that other rooms use; whoever counts nanoseconds calls the part itself, which is a little quicker.
        self.allocate, self.allocate_host = self.allocator.allocate, self.allocator.allocate_host
        self.free, self.release = self.allocator.free, self.allocator.release
        self.reach, self.lost, self.explain = self.addresses.reach, self.addresses.lost, self.addresses.explain
        self.copy, self.copy_2d, self.fill = self.copies.copy, self.copies.copy_2d, self.copies.fill
        views = Views(self.addresses)
        self.read, self.snapshot, self.store = views.read, views.snapshot, views.store
        self.array, self.view, self.window = views.array, views.view, views.window

    def configure(self, settings: Settings) -> None:
        """Take over what the environment says; called again by each `acl.init`."""
        self.addresses.strict = "strict" in settings.checks
        self.allocator.configure(settings)

    @property
    def strict(self) -> bool:
        """Whether `SOFTNPU_CHECK=strict` is in force."""
        return self.addresses.strict

    def release_all(self, device: Device | None, note: str) -> int:
        """Free everything of a device (or, with None, of the host side); returns how many allocations there were."""
        count = self.allocator.release_all(device, note)
        if device is None:
            self.registered.clear()
        return count
