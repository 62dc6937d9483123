"""Picture-processing channels: which engines a program opened, and the tasks that go through them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log
from softnpu.media import rules
from softnpu.media.pixels import csc
from softnpu.runtime.device import Device
from softnpu.runtime.parts import Part
from softnpu.runtime.process import process
from softnpu.runtime.streams.event import Mark
from softnpu.runtime.streams.stream import Stream

ENGINES = {"vpc": 1, "jpegd": 2, "jpege": 4, "pngd": 8}
_ALL = sum(ENGINES.values())
_CSC_MATRIX = 0
_PARAM_BYTES = 4
# What a task meets that a check could not see; hardware tells all of it by one code.
_DATA_ERRORS = frozenset({codes.INVALID_PARAM, codes.RT_PARAM_INVALID, codes.MEMORY_ADDRESS_UNALIGNED})


class Channel:
    """An open channel. `tasks` are those that are not over."""

    def __init__(self, number: int, device: Device) -> None:
        self.id = number
        self.device = device
        self.alive = True
        self.tasks: set[_InFlight] = set()


class _InFlight(Mark):
    """Marks a task of a channel until it is over, be it done, failed or dropped."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        channel.tasks.add(self)

    def complete(self) -> None:
        super().complete()
        self._channel.tasks.discard(self)


class _Channels(Part):
    """The open channels of the process."""

    def __init__(self) -> None:
        self._open: dict[int, Channel] = {}
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call

    def add(self, device: Device) -> Channel:
        with self._lock:
            number = next(number for number in range(1, len(self._open) + 2) if number not in self._open)
            channel = self._open[number] = Channel(number, device)
        return channel

    def remove(self, channel: Channel) -> None:
        channel.alive = False
        with self._lock:
            self._open.pop(channel.id, None)

    def sweep(self, device: Device) -> None:
        """A device goes, and its channels with it."""
        for channel in list(self._open.values()):
            if channel.device is device:
                self.remove(channel)


class ChannelDesc:
    """What a program says about a channel, and the channel once it is open."""

    def __init__(self) -> None:
        self.handle = 0
        self.mode = _ALL
        self.csc = 0
        self._channel: Channel | None = None

    @property
    def channel(self) -> Channel | None:
        """The open channel; one that went with its device is none."""
        channel = self._channel
        return channel if channel is not None and channel.alive else None

    @property
    def id(self) -> int:
        """The number of the channel, 0 while there is none."""
        channel = self.channel
        return channel.id if channel is not None else 0

    def set_mode(self, mode: int) -> None:
        """Choose the engines by their bits."""
        if not mode or mode & ~_ALL:
            raise NpuError(
                codes.INVALID_PARAM,
                f"channel mode {mode:#x} is not known",
                "combine 1 (VPC), 2 (JPEGD), 4 (JPEGE) and 8 (PNGD)",
            )
        if self.channel is not None:
            raise NpuError(
                codes.INVALID_PARAM, f"channel {self.id} is open already", "set the mode before dvpp_create_channel"
            )
        self.mode = mode

    def set_param(self, kind: int, value: int) -> None:
        """Choose the colour matrix; it counts for the tasks sent from now on."""
        self._check_param(kind)
        csc.matrix(value)
        self.csc = value

    def param(self, kind: int) -> tuple[int, int]:
        """Bytes and value of a parameter."""
        self._check_param(kind)
        return _PARAM_BYTES, self.csc

    def _check_param(self, kind: int) -> None:
        if kind != _CSC_MATRIX:
            raise NpuError(
                codes.INVALID_PARAM,
                f"channel parameter {kind} is not known",
                "the only one is 0 (ACL_DVPP_CSC_MATRIX_UINT32)",
            )

    def open(self) -> None:
        """`dvpp_create_channel` on the current device."""
        device = process().current().device
        if self.channel is not None:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the description has a channel already, number {self.id}",
                "destroy it first, or make another description",
            )
        for engine, bit in ENGINES.items():
            if self.mode & bit:
                rules.supports(engine, 1)
        self._channel = process().part(_Channels).add(device)

    def close(self) -> None:
        """`dvpp_destroy_channel`: tasks on their way have all they need and go on."""
        channel = self.channel
        if channel is None:
            raise NpuError(
                codes.INVALID_PARAM,
                "the description has no open channel (never created, or destroyed already)",
                "pair every dvpp_create_channel with one dvpp_destroy_channel",
            )
        _tolerated(
            bool(channel.tasks),
            f"channel {channel.id} is destroyed while {len(channel.tasks)} of its tasks are not over",
            "call acl.rt.synchronize_stream first",
        )
        self._channel = None
        process().part(_Channels).remove(channel)

    def discard(self) -> None:
        """The description goes; a channel that is still open goes with it."""
        channel = self.channel
        if channel is not None:
            _tolerated(
                True, f"the description of channel {channel.id} goes before it", "call dvpp_destroy_channel first"
            )
            self.close()

    def need(self, engine: str, device: Device) -> Channel:
        """The open channel, if it has this engine and belongs to this device."""
        channel = self.channel
        if channel is None:
            raise NpuError(
                codes.INVALID_PARAM,
                "the channel description has no open channel",
                "call dvpp_create_channel(desc) before it is used and dvpp_destroy_channel(desc) after",
            )
        if not self.mode & ENGINES[engine]:
            raise NpuError(
                codes.INVALID_PARAM,
                f"channel {channel.id} was created without {engine.upper()} (mode {self.mode:#x})",
                f"set a mode with the bit {ENGINES[engine]} before dvpp_create_channel, or none at all",
            )
        if channel.device is not device:
            raise NpuError(
                codes.INVALID_PARAM,
                f"channel {channel.id} belongs to device {channel.device.index}, the stream to device {device.index}",
                "use a stream and a channel of the same device",
            )
        return channel


def _tolerated(condition: bool, text: str, remedy: str) -> None:
    """What works here and is asking for trouble on a board: refused in strict mode, else a line in the log."""
    if condition and rules.strict():
        raise NpuError(codes.INVALID_PARAM, text, remedy)
    if condition:
        log().write(WARNING, f"{text} ({remedy})", "DVPP", "channel")


def submit(channel: Channel, stream: Stream, name: str, work: Callable[[], object], inline: bool) -> None:
    """Send a task through a channel. What it finds wrong with its data is told by the next synchronise."""

    def run() -> None:
        try:
            work()
        except NpuError as error:
            if error.code not in _DATA_ERRORS:
                raise
            raise NpuError(codes.RT_AICPU_EXCEPTION, error.text, error.remedy) from error

    stream.submit(run, name, inline, mark=_InFlight(channel))
