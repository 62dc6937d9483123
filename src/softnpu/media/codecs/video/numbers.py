"""The numbers of H.264 pictures: they show a second field, and that a picture is missing (FFmpeg goes on without a word)."""

from __future__ import annotations

from softnpu.base.errors import NpuError
from softnpu.media.codecs.video.sps import Bits, Sps, unescape

_HEADER = 32  # bytes of a slice that hold what is read here
_IDR = 5


class PictureNumbers:
    """Follows the pictures of a stream in the order of decoding."""

    def __init__(self) -> None:
        self._last: int | None = None  # of the last picture that others may refer to
        self._first_field: tuple[int, bool] | None = None

    def see(self, slice_unit: bytes, sps: Sps) -> tuple[bool, bool]:
        """For the first slice of a picture, from its header byte: whether it is a second field, and whether some before it are missing."""
        header = slice_unit[0]
        try:
            number, field, bottom = _read(Bits(unescape(slice_unit[1:_HEADER])), sps)
        except NpuError:
            return False, False  # FFmpeg says that it is damaged
        if field and self._first_field == (number, not bottom):
            self._first_field = None
            return True, False
        self._first_field = (number, bottom) if field else None
        missing = (
            self._last is not None
            and header & 31 != _IDR
            and not sps.gaps
            and number not in (self._last, (self._last + 1) % (1 << sps.number_bits))
        )
        if header & 0x60:
            self._last = number
        return False, missing


def _read(bits: Bits, sps: Sps) -> tuple[int, bool, bool]:
    """Number, whether it is a field, and whether the bottom one."""
    for _ in range(3):
        bits.ue()
    number = bits.u(sps.number_bits)
    field = sps.interlaced and bits.flag()
    return number, field, field and bits.flag()
