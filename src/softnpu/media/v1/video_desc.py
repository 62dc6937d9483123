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
from softnpu.runtime.process import Process, process

ChannelT = TypeVar("ChannelT", bound=VideoChannel)
Callback = Callable[[int, int, Any], object]
_Book = dict[tuple[str, int, int], VideoChannel]  # by engine, device and number
_BOOK = "media.v1.video"
_lock = threading.RLock()  # of the book; a destructor may come here in the middle of a call
_creating = (
    threading.RLock()
)  # apart from it: creating takes the lock of the device, under which `_sweep` takes the book's


@dataclass
class VideoChannelDesc(Generic[ChannelT]):
    """What a program sets before it creates a channel, and the channel once it is open."""

    word: ClassVar[str]
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
                f"{name} {value} of a {self.word} channel is not known",
                f"use 0 to {choices.stop - 1}",
            )
        setattr(self, name, value)

    def opened(self) -> ChannelT:
        """The channel; raises when there is none."""
        if self.channel is None:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the description has no open {self.word} channel",
                "create the channel first, and use it no more once it is destroyed",
            )
        return self.channel

    def create(self, count: int, number: int | None, make: Callable[[int], ChannelT]) -> None:
        """Open the channel under a number below `count`, the lowest free one when None is given."""
        device = process().current().device
        with _creating:
            if self.channel is not None and self.channel.alive:
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"the description has {self.word} channel {self.channel.number} already",
                    "create a channel once per description",
                )
            taken = _taken(self.word, device)
            if number is None:
                number = next((index for index in range(count) if index not in taken), count)
            if number in taken or number >= count:
                what = "is in use" if number in taken else "does not exist"
                raise NpuError(
                    codes.INVALID_PARAM,
                    f"{self.word} channel {number} of device {device.index} {what}",
                    f"ids go from 0 to {count - 1}; destroy channels that are no longer needed",
                )
            channel = make(number)
            with _lock:
                self.channel = _book()[self.word, device.index, number] = channel

    def destroy(self) -> None:
        """Let everything that was sent come back, and close the channel."""
        with _lock:
            channel = self.opened()
            channel.stream.refuse_inside()
            self.channel = None
        try:
            channel.close()
        finally:
            with _lock:
                _forget(channel)

    def discard(self) -> None:
        """The description goes; raises while its channel is open."""
        if self.channel is not None and self.channel.alive:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{self.word} channel {self.channel.number} of this description is open",
                "destroy the channel first",
            )


def _book() -> _Book:
    owner = process()
    with _lock:
        if _BOOK not in owner.extra:
            owner.extra[_BOOK] = {}
            owner.sweepers.append(_sweep)
            atexit.register(_end, owner)
        found: _Book = owner.extra[_BOOK]
        return found


def _taken(word: str, device: Device) -> set[int]:
    """The numbers of an engine of a device that are in use."""
    with _lock:
        return {number for (kind, home, number), one in _book().items() if (kind, home) == (word, device.index) and one.alive}  # fmt: skip


def _forget(channel: VideoChannel) -> None:
    key = (channel.word, channel.device.index, channel.number)
    if _book().get(key) is channel:
        del _book()[key]


def _sweep(device: Device) -> None:
    """A device goes: its contexts have ended, and the streams of the channels with them."""
    with _lock:
        gone = [channel for channel in _book().values() if channel.device is device and not channel.alive]
        for channel in gone:
            _forget(channel)
    for channel in gone:
        channel.abandon()
    if not process().started:
        atexit.unregister(_end)


def _end(owner: Process) -> None:
    """The interpreter ends: no worker may stand inside a codec when that goes. Forked children have no workers."""
    if owner.pid == os.getpid():
        for channel in list(owner.extra.get(_BOOK, {}).values()):
            channel.abandon()
