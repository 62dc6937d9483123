"""Descriptions of the video channels of `acl.media`, and the book of those that are open."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from softnpu.base.errors import NpuError, codes
from softnpu.media.v1.video_channel import VideoChannel
from softnpu.runtime.device import Device
from softnpu.runtime.parts import Part
from softnpu.runtime.process import Process, process

ChannelT = TypeVar("ChannelT", bound=VideoChannel)
Callback = Callable[[int, int, Any], object]


@dataclass
class VideoChannelDesc(Generic[ChannelT]):
    """What a program sets before it creates a channel, and the channel once it is open."""

    engine: ClassVar[str]
    choices: ClassVar[dict[str, range]]  # fields that have few values

    callback: Callback | None = None
    thread_id: int = 0
    channel: ChannelT | None = None

    def put(self, name: str, value: Any) -> None:
        """Set a field. An open channel keeps what was set when it was created, the callback excepted."""
        choices = self.choices.get(name)
        if choices is not None and value not in choices:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{name} {value} of a {self.engine} channel is not known",
                f"use 0 to {choices.stop - 1}",
            )
        setattr(self, name, value)

    def opened(self) -> ChannelT:
        """The channel; raises when there is none."""
        if self.channel is None:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the description has no open {self.engine} channel",
                "create the channel first, and use it no more once it is destroyed",
            )
        return self.channel

    def create(self, count: int, number: int | None, make: Callable[[int], ChannelT]) -> None:
        """Open the channel under a number below `count`, the lowest free one when None is given."""
        device = process().current().device
        book = process().part(ChannelBook)
        with book.creating:
            if self.channel is not None and self.channel.alive:
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"the description has {self.engine} channel {self.channel.number} already",
                    "create a channel once per description",
                )
            taken = book.taken(self.engine, device)
            if number is None:
                number = next((index for index in range(count) if index not in taken), count)
            if number in taken or number >= count:
                what = "is in use" if number in taken else "does not exist"
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"{self.engine} channel {number} of device {device.index} {what}",
                    f"ids go from 0 to {count - 1}; destroy channels that are no longer needed",
                )
            channel = make(number)
            with book.lock:
                self.channel = book.channels[self.engine, device.index, number] = channel

    def destroy(self) -> None:
        """Let everything that was sent come back, and close the channel."""
        book = process().part(ChannelBook)
        with book.lock:
            channel = self.opened()
            channel.stream.refuse_inside()
            self.channel = None
        try:
            channel.close()
        finally:
            book.forget(channel)

    def discard(self) -> None:
        """The description goes; raises while its channel is open."""
        if self.channel is not None and self.channel.alive:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{self.engine} channel {self.channel.number} of this description is open",
                "destroy the channel first",
            )


class ChannelBook(Part):
    """The open video channels of the process, by engine, device and number."""

    def __init__(self, owner: Process) -> None:
        self._owner = owner
        self.channels: dict[tuple[str, int, int], VideoChannel] = {}
        self.lock = threading.RLock()  # a destructor may come here in the middle of a call
        # Apart from it: creating takes the lock of the device, under which `sweep` takes the other.
        self.creating = threading.RLock()
        atexit.register(self.end)

    @classmethod
    def of(cls, owner: Process) -> ChannelBook:
        return cls(owner)

    def taken(self, engine: str, device: Device) -> set[int]:
        """The numbers of an engine of a device that are in use."""
        with self.lock:
            return {
                number
                for (kind, home, number), channel in self.channels.items()
                if (kind, home) == (engine, device.index) and channel.alive
            }

    def forget(self, channel: VideoChannel) -> None:
        """Give the number of a channel back."""
        with self.lock:
            key = (channel.engine, channel.device.index, channel.number)
            if self.channels.get(key) is channel:
                del self.channels[key]

    def sweep(self, device: Device) -> None:
        """A device goes: its contexts have ended, and the streams of the channels with them."""
        with self.lock:
            gone = [channel for channel in self.channels.values() if channel.device is device and not channel.alive]
            for channel in gone:
                self.forget(channel)
        for channel in gone:
            channel.abandon()
        if not self._owner.started:
            atexit.unregister(self.end)

    def end(self) -> None:
        """The interpreter ends: no worker may stand inside a codec when that goes. Forked children have no workers."""
        if self._owner.pid == os.getpid():
            for channel in list(self.channels.values()):
                channel.abandon()
