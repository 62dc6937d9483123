"""What travels through an encode channel of `acl.himpi`, and what an engine of one must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from softnpu.media.pixels.picture import Pixels
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc.settings import Settings


@dataclass(eq=False)
class Job:
    """A picture on its way to the encoder. `target` is the program's own output: address and capacity."""

    pixels: Pixels
    pts: int
    input_address: int
    key: bool = False
    target: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes of the copy."""
        return sum(plane.nbytes for plane in self.pixels.planes)


@dataclass
class Coded:
    """An encoded picture, and where its pieces lie: parameter sets first, the picture last."""

    data: bytes
    pieces: list[tuple[int, int]]


class Host(Protocol):
    """What an engine sees of the channel that it works for."""

    attr: Fields
    settings: Settings


class Engine(ABC):
    """What encodes the pictures of a channel, in its worker thread."""

    name = ""  # for the rules of the chip

    def __init__(self, channel: Host) -> None:
        self.channel = channel

    @abstractmethod
    def encode(self, job: Job) -> list[tuple[Job, Coded]]:
        """Encode a picture; what is ready, with the picture it came of."""

    @abstractmethod
    def close(self) -> None:
        """Give memory back."""
