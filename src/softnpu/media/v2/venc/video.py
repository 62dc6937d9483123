"""H.264 and H.265 in an encode channel of `acl.himpi`."""

from __future__ import annotations

from softnpu import constants as c
from softnpu.base.units import align_up
from softnpu.media.codecs.video.annexb import Codec
from softnpu.media.codecs.video.encoder import VideoEncoder
from softnpu.media.codecs.video.settings import PROFILES, EncoderSettings, Vui, pixel_aspect
from softnpu.media.v2.checks import CODECS
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc import structs
from softnpu.media.v2.venc.frames import Coded, Engine, Host, Job
from softnpu.media.v2.venc.settings import rate_control


class VideoEngine(Engine):
    """A video encoder. A change of its settings begins a new stream, with a key picture."""

    name = "venc"

    def __init__(self, channel: Host) -> None:
        super().__init__(channel)
        self._codec = CODECS[channel.attr.venc_attr.type]
        self._encoder = self._new_encoder()

    def _new_encoder(self) -> VideoEncoder:
        venc, self._version = self.channel.attr.venc_attr, self.channel.settings.version
        wanted = encoder_settings(self.channel, self._codec)
        return VideoEncoder(self._codec, venc.pic_width, venc.pic_height, wanted)

    def encode(self, job: Job) -> list[tuple[Job, Coded]]:
        if self._version != self.channel.settings.version:
            self._encoder.close()
            self._encoder = self._new_encoder()
        coded = self._encoder.send(job.pixels, job, job.key)
        coded = coded or self._encoder.flush()  # nothing may stay inside: the program waits for this picture
        return [
            (unit.token, Coded(unit.data, [(offset, length) for _, offset, length in unit.units]))
            for unit in coded
            if isinstance(unit.token, Job)
        ]

    def close(self) -> None:
        self._encoder.close()


def encoder_settings(channel: Host, codec: Codec) -> EncoderSettings:
    """What the attributes and settings of a channel mean for the encoder."""
    kind, rc = rate_control(channel.attr.rc_attr)
    values = channel.settings.values
    least, most = _qp_range(channel)
    return EncoderSettings(
        gop=rc.gop,
        bit_rate_kbps=_bit_rate(rc),
        frame_rate=channel.settings.frame_rates()[1],  # the channel drops pictures itself
        rate_control=kind,
        profile=PROFILES[codec][channel.attr.venc_attr.profile],
        qp=(rc.i_qp, rc.p_qp, rc.b_qp) if kind == "fixqp" else (30, 32, 32),
        min_qp=least,
        max_qp=most,
        stats_time=getattr(rc, "stats_time", 1),
        long_term_kbps=_long_term(rc),
        ip_qp_delta=_ip_delta(channel.attr.gop_attr),
        slice_rows=_slice_rows(values["slice_split"], codec),
        intra_refresh=bool(values["intra_refresh"].refresh_enable),
        vui=_vui(values["h264_vui" if codec == "h264" else "h265_vui"]),
    )


def _bit_rate(rc: Fields) -> int:
    names = ("bit_rate", "max_bit_rate", "target_bit_rate")
    return next((getattr(rc, name) for name in names if hasattr(rc, name)), 2000)


def _long_term(rc: Fields) -> int:
    low, high = getattr(rc, "long_term_min_bit_rate", 0), getattr(rc, "long_term_max_bit_rate", 0)
    return int((low + high) // 2) if low and high else int(high)


def _qp_range(channel: Host) -> tuple[int, int]:
    name = structs.RC_PARAM_NAMES.get(channel.attr.rc_attr.rc_mode)
    if name is None:
        return 0, 51
    param = getattr(channel.settings.values["rc_param"], name)
    return param.min_qp, param.max_qp


def _ip_delta(gop: Fields) -> int | None:
    if gop.gop_mode == c.HI_VENC_GOP_MODE_SMART_P:
        return None
    member = gop.dual_p if gop.gop_mode == c.HI_VENC_GOP_MODE_DUAL_P else gop.normal_p
    return int(member.ip_qp_delta)


def _slice_rows(split: Fields, codec: Codec) -> int:
    """Rows of blocks in a slice. x265 holds a picture back when it makes slices, so H.265 has none here."""
    return int(split.split_size) if split.split_enable and codec == "h264" else 0


def _vui(vui: Fields) -> Vui:
    ratio, signal = vui.vui_aspect_ratio, vui.vui_video_signal
    coloured = signal.video_signal_type_present_flag and signal.colour_description_present_flag
    return Vui(
        aspect=pixel_aspect(ratio.aspect_ratio_idc, ratio.sar_width, ratio.sar_height)
        if ratio.aspect_ratio_info_present_flag
        else (0, 0),
        overscan=bool(ratio.overscan_appropriate_flag) if ratio.overscan_info_present_flag else None,
        video_format=signal.video_format if signal.video_signal_type_present_flag else None,
        full_range=bool(signal.video_full_range_flag) if signal.video_signal_type_present_flag else None,
        primaries=signal.colour_primaries if coloured else None,
        transfer=signal.transfer_characteristics if coloured else None,
        matrix=signal.matrix_coefficients if coloured else None,
    )


# ---- quality maps ----------------------------------------------------------------------------------------------------


def qpmap_stride(width: int) -> int:
    """`venc_get_qpmap_stride`: a byte for each 16 pixels, rows of 16 bytes. A guess: the chip's formula is not published."""
    return align_up(align_up(width, 16) // 16, 16)


def qpmap_size(payload: int, width: int, height: int) -> int:
    """`venc_get_qpmap_size`: that stride for each 16 rows; 0 for what has no quality map."""
    return qpmap_stride(width) * -(-height // 16) if payload in CODECS else 0
