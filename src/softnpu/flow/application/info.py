"""FlowInfo: what travels beside the data, as the application sees it."""

from __future__ import annotations

import enum

from softnpu.flow import message
from softnpu.flow.errors import DfException
from softnpu.flow.message import USER_DATA_SIZE, Message


class FlowFlag(enum.IntEnum):
    """Bits of `flow_flags`."""

    DATA_FLOW_FLAG_EOS = message.EOS
    DATA_FLOW_FLAG_SEG = message.SEG


_FIELDS = (("start_time", 64), ("end_time", 64), ("flow_flags", 32), ("transaction_id", 64))


class FlowInfo:
    """Times, flags, transaction id and 64 bytes of the user's own, from feed_data to fetch_data."""

    MAX_USER_DATA_SIZE = USER_DATA_SIZE

    def __init__(self, start_time: int = 0, end_time: int = 0, flow_flags: int = 0, transaction_id: int = 0) -> None:
        self.start_time = start_time
        self.end_time = end_time
        self.flow_flags = flow_flags
        self.transaction_id = transaction_id
        self._user_data = bytearray(USER_DATA_SIZE)
        self._data_size = 0

    @property
    def user_data(self) -> bytearray:
        """All 64 bytes."""
        return self._user_data

    @property
    def data_size(self) -> int:
        """The end of what was written."""
        return self._data_size

    def set_user_data(self, data: bytes | bytearray | memoryview, offset: int = 0) -> None:
        """Write bytes at an offset."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"user data is bytes, not {type(data).__name__}; a text needs .encode()")
        _check("data", len(data), offset)
        self._user_data[offset : offset + len(data)] = data
        self._data_size = max(self._data_size, offset + len(data))

    def get_user_data(self, size: int = 0, offset: int = 0) -> bytearray:
        """Bytes from an offset."""
        _check("size", size, offset)
        return self._user_data[offset : offset + size]

    def write(self, message: Message) -> None:
        """Put it on a message."""
        message.start_time = self.start_time
        message.end_time = self.end_time
        message.flags = int(self.flow_flags)
        message.trans_id = self.transaction_id
        message.user_trans = self.transaction_id != 0
        message.user_data = bytes(self._user_data) if self._data_size else b""

    def _problem(self) -> str:
        """Why it cannot travel: a number that does not fit its field; empty if all do."""
        for name, bits in _FIELDS:
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value < 1 << bits:
                return f"FlowInfo.{name} is a whole number from 0 to 2^{bits} - 1, not {value!r}"
        return ""

    def __repr__(self) -> str:
        return (
            f"FlowInfo(start_time={self.start_time}, end_time={self.end_time}, flow_flags={self.flow_flags}, "
            f"transaction_id={self.transaction_id})"
        )


def _check(what: str, size: int, offset: int) -> None:
    if size <= 0 or offset < 0 or offset + size > USER_DATA_SIZE:
        raise DfException(
            f"User data has {USER_DATA_SIZE} bytes: {what} of {size} bytes at offset {offset} does not lie inside (or is empty)."
        )


def of(message: Message | None) -> FlowInfo:
    """What a message says."""
    if message is None:
        return FlowInfo()
    info = FlowInfo(message.start_time, message.end_time, message.flags, message.trans_id)
    if message.user_data:
        info.set_user_data(message.user_data)
    return info
