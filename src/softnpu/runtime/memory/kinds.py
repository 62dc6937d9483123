"""Kinds of allocations, and what they mean."""

from __future__ import annotations

from softnpu.runtime.memory.atlas import Allocation

COUNTED_KINDS = frozenset({"device", "media", "torch"})  # addresses without own memory do not count as used
DEVICE_KINDS = frozenset({"device", "media", "torch", "virtual", "imported"})
LASTING_KINDS = frozenset({"torch"})  # held by another face: acl.finalize and acl.rt.reset_device leave them alone
FREED_BY = {
    "device": "acl.rt.free",
    "host": "acl.rt.free_host",
    "media": "acl.media.dvpp_free or acl.himpi.dvpp_free",
    "virtual": "acl.rt.unmap_mem and acl.rt.release_mem_address",
    "imported": "acl.rt.ipc_mem_close",
}


def on_device(allocation: Allocation | None) -> bool:
    """Whether an allocation is memory of a device; memory we did not make is the host's."""
    return allocation is not None and allocation.kind in DEVICE_KINDS
