"""The media system of a process: what stands between `sys_init` and `sys_exit`, its channels and its event waiters."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from softnpu.base.log import WARNING, log
from softnpu.media import rules
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.sys.epoll import Epolls
from softnpu.media.v2.sys.ready import Ready
from softnpu.runtime.device import Device
from softnpu.runtime.parts import Part
from softnpu.runtime.process import Process, process

if TYPE_CHECKING:
    from softnpu.media.v2.pngd import PngdChannel
    from softnpu.media.v2.vdec.channel import DecodeChannel
    from softnpu.media.v2.venc.channel import EncodeChannel
    from softnpu.media.v2.vpc.channel import VpcChannel


class Channel(Protocol):
    """What the system must know of a channel."""

    device: Device

    @property
    def ready(self) -> Ready | None:
        """Its descriptor, where it has one."""

    def close(self) -> None:
        """Let running work end, then give everything back. The channel is out of the registry already."""


ChannelT = TypeVar("ChannelT", bound=Channel)


class Registry(Generic[ChannelT]):
    """The open channels of an engine by their ids. JPEGD shares the ids of VDEC, JPEGE those of VENC.

    Only who makes channels takes the lock. A sweep has locks of the device, which making may need.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._channels: dict[int, ChannelT] = {}
        self._making = threading.RLock()  # a destructor may come here in the middle of a call

    def most(self) -> int:
        """How many ids there are on the simulated chip."""
        return rules.channel_ids(self.module)

    def check(self, number: int) -> None:
        """Raise unless the number can be a channel's id."""
        most = self.most()
        if not 0 <= number < most:
            raise himpi_error(
                self.module,
                "INVALID_CHN_ID",
                f"channel id {number} is out of range",
                f"use an id from 0 to {most - 1}",
            )

    def open(self, number: int, make: Callable[[], ChannelT]) -> ChannelT:
        """Make the channel of an id."""
        self.check(number)
        with self._making:
            if number in self._channels:
                raise himpi_error(
                    self.module, "EXIST", f"channel {number} exists already", "destroy it first, or use another id"
                )
            channel = self._channels[number] = make()
        return channel

    def open_free(self, make: Callable[[int], ChannelT]) -> ChannelT:
        """Make a channel with the first id that is free."""
        with self._making:
            number = next((n for n in range(self.most()) if n not in self._channels), None)
            if number is None:
                raise himpi_error(
                    self.module, "NO_MEM", f"all {self.most()} channels are in use", "destroy one that is not needed"
                )
            channel = self._channels[number] = make(number)
        return channel

    def get(self, number: int) -> ChannelT:
        """The open channel of an id."""
        channel = self._channels.get(number)
        if channel is None:
            self.check(number)
            raise self._unknown(number)
        return channel

    def take(self, number: int) -> ChannelT:
        """Take a channel out of the registry, to close it."""
        channel = self._channels.pop(number, None)
        if channel is None:
            self.check(number)
            raise self._unknown(number)
        return channel

    def take_all(self, device: Device | None) -> list[ChannelT]:
        """Take out all channels (of a device)."""
        gone = [n for n, channel in list(self._channels.items()) if device is None or channel.device is device]
        return [channel for channel in (self._channels.pop(number, None) for number in gone) if channel is not None]

    def living(self, device: Device | None = None) -> list[int]:
        """The ids that are in use (on a device)."""
        return sorted(
            number for number, channel in list(self._channels.items()) if device is None or channel.device is device
        )

    def channels(self) -> list[ChannelT]:
        """All that are open."""
        return list(self._channels.values())

    def has_fd(self, fd: int) -> bool:
        """Whether one of the channels handed this descriptor out."""
        return any(channel.ready is not None and channel.ready.has(fd) for channel in list(self._channels.values()))

    def _unknown(self, number: int) -> Exception:
        return himpi_error(
            self.module,
            "UNEXIST",
            f"channel {number} does not exist (open: {self.living() or 'none'})",
            f"create it with {self.module}_create_chn first",
        )


class System(Part):
    """Channels by engine, event waiters, and whether `sys_init` was called."""

    def __init__(self, owner: Process) -> None:
        self.owner = owner
        self.started = False
        self.vpc: Registry[VpcChannel] = Registry("vpc")
        self.vdec: Registry[DecodeChannel] = Registry("vdec")
        self.venc: Registry[EncodeChannel] = Registry("venc")
        self.pngd: Registry[PngdChannel] = Registry("pngd")
        self.epolls = Epolls(self.has_fd)
        self.memo: dict[str, Any] = {}  # settings of whole engines, e.g. venc_set_mod_param; gone with sys_exit
        atexit.register(self.end)

    @classmethod
    def of(cls, owner: Process) -> System:
        return cls(owner)

    @property
    def registries(self) -> tuple[Registry[Any], ...]:
        """All registries."""
        return self.vpc, self.vdec, self.venc, self.pngd

    def start(self) -> None:
        """`sys_init`: needs a device. A second call changes nothing."""
        self.owner.current()
        if self.started:
            log().write(WARNING, "the media system is started already", "DVPP", "sys_init")
        self.started = True

    def stop(self) -> None:
        """`sys_exit`: closes what the program left open."""
        if not self.started:
            log().write(WARNING, "the media system is not started", "DVPP", "sys_exit")
        self.started = False
        for registry in self.registries:
            if left := registry.living():
                log().write(WARNING, f"{registry.module} channels {left} were never destroyed", "DVPP", "sys_exit")
        self._close(None)

    def _close(self, device: Device | None) -> None:
        for registry in self.registries:
            for channel in registry.take_all(device):
                channel.close()
        if device is None:
            self.epolls.close_all()
            self.memo.clear()

    def sweep(self, device: Device) -> None:
        """The memory of a device goes: its channels are gone. With `acl.finalize` everything is."""
        self._close(device)
        if not self.owner.started:
            self.started = False
            self._close(None)
            atexit.unregister(self.end)

    def end(self) -> None:
        """The interpreter ends: no worker may stand inside a library when that goes. Forked children have no workers."""
        if self.owner.pid == os.getpid():
            self._close(None)

    def leaks(self, device: Device | None) -> list[str]:
        """A line for each channel that was never destroyed."""
        return [
            f"{registry.module} channel {number} never destroyed"
            for registry in self.registries
            for number in registry.living(device)
        ]

    def has_fd(self, fd: int) -> bool:
        """Whether a channel handed this descriptor out."""
        return any(registry.has_fd(fd) for registry in self.registries)


def system() -> System:
    """The media system of this process, started or not."""
    return process().part(System)


def stop() -> None:
    """`sys_exit`, which is harmless when there is nothing to stop."""
    started = process().parts.peek(System)
    if started is None:
        log().write(WARNING, "the media system is not started", "DVPP", "sys_exit")
    else:
        started.stop()


def need_system(module: str) -> System:
    """The media system; raises NOT_READY of an engine before `sys_init`."""
    media_system = process().parts.peek(System)
    if media_system is None or not media_system.started:
        raise himpi_error(module, "NOT_READY", "the media system is not started", "call acl.himpi.sys_init first")
    return media_system
