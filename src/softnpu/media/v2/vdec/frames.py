"""What travels through a decode channel of `acl.himpi`, and what an engine of one must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol

from softnpu.media.pixels.picture import Picture
from softnpu.media.v2.struct import Fields
from softnpu.runtime.memory.memory import Memory

GOOD, FAILED, NO_PICTURE = 0, 1, 2  # values of frame_flag


@dataclass(eq=False)
class Packet:
    """What one `vdec_send_stream` gave; it is also the token that travels through the decoder."""

    stream: Fields
    picture: Fields
    data: bytes
    size: int = 0

    def __post_init__(self) -> None:
        self.size = len(self.data)


@dataclass(eq=False)
class Frame:
    """What one `vdec_get_frame` hands out. `trouble` names the counter of `dec_err` that a failure raises."""

    packet: Packet
    flag: int = GOOD
    picture: Picture = field(default_factory=Picture)
    frame_type: int = 0
    bits: int = 8
    stream_size: tuple[int, int] = (0, 0)
    number: int = 0
    trouble: str = ""
    reason: str = ""


class Host(Protocol):
    """What an engine sees of the channel that it works for."""

    attr: Fields
    param: Fields
    precision: int
    csc: Any
    memory: Memory

    def tell(self, text: str) -> None:
        """Warn once."""


class Engine(ABC):
    """What decodes the packets of a channel, in its worker thread."""

    def __init__(self, channel: Host) -> None:
        self.channel = channel

    @abstractmethod
    def decode(self, packet: Packet) -> list[Frame]:
        """Decode a packet; the frames that are ready now."""

    @abstractmethod
    def flush(self) -> list[Frame]:
        """The frames that are still inside."""

    @abstractmethod
    def close(self) -> None:
        """Give memory back."""


def output(packet: Packet) -> Picture:
    """The output picture of a packet, as the program described it."""
    asked = packet.picture
    return Picture(
        asked.vir_addr,
        asked.buffer_size,
        asked.width,
        asked.height,
        asked.width_stride,
        asked.height_stride,
        asked.pixel_format,
    )
