"""Checks that decode and encode channels of `acl.himpi` share, and the codecs by their payload types."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.video.annexb import Codec

CODECS: dict[int, Codec] = {c.HI_PT_H264: "h264", c.HI_PT_H265: "hevc"}


def check_in(name: str, value: int, allowed: range) -> None:
    """Raise unless a value is in its range."""
    if value not in allowed:
        raise NpuError(
            codes.INVALID_PARAM, f"{name} is {value}", f"use a value from {allowed.start} to {allowed.stop - 1}"
        )
