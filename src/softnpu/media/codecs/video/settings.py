"""How a video is to be encoded, and what that is called by x264 and x265."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction

from softnpu.base.errors import NpuError, codes
from softnpu.media.codecs.video.annexb import Codec

RATE_CONTROLS = ("cbr", "vbr", "avbr", "qvbr", "cvbr", "fixqp")
PROFILES = {"h264": ("baseline", "main", "high"), "hevc": ("main", "main10")}
_QUALITY = {"h264": 23, "hevc": 26}  # of the modes whose bit rate is only a ceiling
_BLOCK = {"h264": 16, "hevc": 32}  # pixels in a row of blocks, where slices are counted in those
_SMALL_BLOCKS = 2_228_224  # pixels of level 4.1; above it blocks of 16 are not allowed
_MAX_BUFFER = 2_000_000_000
_MAX_POOL = 8
_RATIOS = (
    (0, 0), (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11), (80, 33), (18, 11), (15, 11),
    (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip
_VIDEO_FORMATS = ("component", "pal", "ntsc", "secam", "mac", "undef")


@dataclass(frozen=True)
class Vui:
    """What the stream says about how to show it. None or an empty pair is left unsaid."""

    aspect: tuple[int, int] = (0, 0)  # of a pixel
    overscan: bool | None = None
    video_format: int | None = None
    full_range: bool | None = None
    primaries: int | None = None
    transfer: int | None = None
    matrix: int | None = None


def pixel_aspect(idc: int, width: int = 0, height: int = 0) -> tuple[int, int]:
    """The shape of a pixel for `aspect_ratio_idc`; 255 takes the pair that is given."""
    if idc == 255:
        return width, height
    return _RATIOS[idc] if 0 <= idc < len(_RATIOS) else (0, 0)


@dataclass(frozen=True)
class EncoderSettings:
    """The wishes of a program.

    | rate_control | bit_rate_kbps is | what is done |
    |---|---|---|
    | cbr | the rate | that rate, in a buffer of `stats_time` seconds |
    | vbr, avbr | the ceiling | constant quality below that ceiling |
    | qvbr | the target | that rate on average, half as much more for a while |
    | cvbr | the ceiling | `long_term_kbps` on average (4/5 of the ceiling when 0), never above the ceiling |
    | fixqp | not used | `qp` for I and P pictures; there are no B pictures, so the third is not used |

    The libraries have no limit for the size of I against P pictures. The time code of the stream follows the frame rate.
    `main10` writes a 10-bit stream of the 8-bit pictures.
    """

    gop: int = 30
    bit_rate_kbps: int = 2000
    frame_rate: int = 30
    rate_control: str = "cbr"
    profile: str = "main"
    qp: tuple[int, int, int] = (30, 32, 32)
    min_qp: int = 0
    max_qp: int = 51
    stats_time: int = 1
    long_term_kbps: int = 0
    ip_qp_delta: int | None = None  # by how much the QP of I pictures is below that of P pictures
    slice_rows: int = 0  # rows of blocks (16 pixels in H.264, 32 in H.265) in a slice
    intra_refresh: bool = False  # a moving column of I blocks instead of I pictures, once in each gop
    preset: str = "ultrafast"
    vui: Vui = field(default_factory=Vui)

    def check(self, codec: Codec) -> None:
        """Raise for a value that is out of its range."""
        for name, low, high in (
            ("gop", 1, 65536),
            ("bit_rate_kbps", 2, 614400),
            ("frame_rate", 1, 240),
            ("stats_time", 1, 60),
            ("min_qp", 0, self.max_qp),
            ("max_qp", 0, 51),
            ("long_term_kbps", 0, 614400),
            ("slice_rows", 0, 1 << 16),
        ):
            _within(name, getattr(self, name), low, high)
        for value in self.qp:
            _within("qp", value, 0, 51)
        if self.ip_qp_delta is not None:
            _within("ip_qp_delta", self.ip_qp_delta, -10, 30)
        if self.rate_control not in RATE_CONTROLS:
            raise _refuse("rate_control", self.rate_control, f"one of {', '.join(RATE_CONTROLS)}")
        if self.profile not in PROFILES[codec]:
            raise _refuse("profile", self.profile, f"one of {', '.join(PROFILES[codec])} for {codec}")

    def options(self, codec: Codec, width: int, height: int) -> dict[str, str]:
        """The options of FFmpeg's libx264 or libx265."""
        params: dict[str, object] = {"keyint": self.gop, "min-keyint": 1, "scenecut": 0, "bframes": 0}
        params |= self._quality_params() | self._slice_params(codec, height) | self._vui_params()
        options = {"preset": self.preset, "tune": "zerolatency", "profile": self.profile, "forced-idr": "1"}
        if codec == "h264":
            # The fastest preset leaves these out, and the stream would then claim a lower profile than was asked for.
            params |= {"cabac": int(self.profile != "baseline"), "8x8dct": int(self.profile == "high")}
        else:
            params |= {"log-level": "none", "info": 0, "open-gop": 0, "pools": min(os.cpu_count() or 1, _MAX_POOL)}
            if width * height <= _SMALL_BLOCKS:
                params["ctu"] = 16  # a third faster than the preset's 32, for half a decibel
        text = ":".join(f"{key}={value}" for key, value in params.items())
        return options | self._rate_options(codec) | {"x264-params" if codec == "h264" else "x265-params": text}

    def _rate_options(self, codec: Codec) -> dict[str, str]:
        rate = self.bit_rate_kbps * 1000
        buffer = str(min(rate * self.stats_time, _MAX_BUFFER))
        if self.rate_control == "fixqp":
            return {}
        if self.rate_control in ("vbr", "avbr"):
            return {"crf": str(_QUALITY[codec]), "maxrate": str(rate), "bufsize": buffer}
        if self.rate_control == "qvbr":
            return {"b": str(rate), "maxrate": str(rate * 3 // 2), "bufsize": buffer}
        if self.rate_control == "cvbr":
            average = min(self.long_term_kbps * 1000 or rate * 4 // 5, rate)
            return {"b": str(average), "maxrate": str(rate), "bufsize": buffer}
        return {"b": str(rate), "maxrate": str(rate), "bufsize": buffer}

    def _quality_params(self) -> dict[str, object]:
        delta = self.ip_qp_delta
        params: dict[str, object] = {}
        if self.rate_control == "fixqp":
            base = max(self.qp[1], 1)  # with 0 x264 leaves the profile: it becomes lossless
            params["qp"] = base
            delta = base - self.qp[0]
        else:
            params |= {"qpmin": self.min_qp, "qpmax": self.max_qp}
        if delta is not None:
            params["ipratio"] = f"{2 ** (delta / 6):.5f}"
        return params

    def _slice_params(self, codec: Codec, height: int) -> dict[str, object]:
        params: dict[str, object] = {}
        rows = -(-height // _BLOCK[codec])
        if self.slice_rows:
            params["slices"] = max(1, min(rows, -(-rows // self.slice_rows)))
        if self.intra_refresh:
            params["intra-refresh"] = 1
        return params

    def _vui_params(self) -> dict[str, object]:
        params: dict[str, object] = {}
        if self.vui.overscan is not None:
            params["overscan"] = "crop" if self.vui.overscan else "show"
        if self.vui.video_format is not None:
            params["videoformat"] = _VIDEO_FORMATS[min(max(self.vui.video_format, 0), 5)]
        return params

    def aspect(self) -> Fraction | None:
        """The shape of a pixel, or None."""
        width, height = self.vui.aspect
        return Fraction(width, height) if width > 0 and height > 0 else None


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise _refuse(name, value, f"a value from {low} to {high}")


def _refuse(name: str, value: object, allowed: str) -> NpuError:
    return NpuError(codes.INVALID_PARAM, f"the encoder cannot take {name} {value!r}", f"give it {allowed}")
