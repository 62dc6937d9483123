"""The check of how many dims inputs have."""

from __future__ import annotations

from softnpu.ops._lower import OpError, Site


def ranks(n: Site, *wanted: int) -> None:
    """Refuse inputs that have another number of dims than wanted, in their order."""
    for index, want in enumerate(wanted):
        if n.rank(index) != want:
            raise OpError(
                f"{n.type} {n.name!r} has an input {index} of shape {list(n.shape(index))}; it must have {want} dims"
            )
