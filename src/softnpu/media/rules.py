"""What a chip's media engines accept. Strict mode refuses what the chip refuses; otherwise a broken rule is logged once."""

from __future__ import annotations

from softnpu.media.picture import Picture
from softnpu.runtime.process import process


def family() -> str:
    """The chip family of the device in use, as the rows call it: 310, 910, 310P, 310B, 910B, A3."""
    return str(process().devices[0].info.soc.family)


def strict() -> bool:
    """Whether the rules of the chip are errors."""
    return process().memory.strict


def supports(engine: str, version: int) -> None:
    """Raise (strict) or warn when the chip has no such engine in this version of the interface."""


def check(engine: str, role: str, picture: Picture | None = None, **facts: object) -> None:
    """Raise (strict) or warn when a picture breaks a rule of the chip."""
