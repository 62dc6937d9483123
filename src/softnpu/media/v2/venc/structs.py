"""Dictionaries of VENC and JPEGE."""

from __future__ import annotations

from typing import Any

from softnpu.base.errors import Raise
from softnpu.media.v2.struct import Fields, Struct
from softnpu.media.v2.structs import FRAME_INFO, RECT

# rc_mode → codec and kind of rate control; its dictionary is called `{codec}_{kind}`.
RC_MODES = {
    **{1 + n: ("h264", kind) for n, kind in enumerate(("cbr", "vbr", "avbr", "qvbr", "cvbr", "fixqp", "qpmap"))},
    **{8 + n: ("mjpeg", kind) for n, kind in enumerate(("cbr", "vbr", "fixqp"))},
    **{11 + n: ("h265", kind) for n, kind in enumerate(("cbr", "vbr", "avbr", "qvbr", "cvbr", "fixqp", "qpmap"))},
}
_RATES: dict[str, Any] = {"src_frame_rate": "u32", "dst_frame_rate": "u32"}
_TIMED: dict[str, Any] = {"gop": "u32", "stats_time": "u32", **_RATES}
_LONG: dict[str, Any] = {"short_term_stats_time": "u32", "long_term_stats_time": "u32", "long_term_max_bit_rate": "u32", "long_term_min_bit_rate": "u32"}  # fmt: skip
_RC_FIELDS: dict[str, dict[str, Any]] = {
    "cbr": {**_TIMED, "bit_rate": "u32"},
    "vbr": {**_TIMED, "max_bit_rate": "u32"},
    "avbr": {**_TIMED, "max_bit_rate": "u32"},
    "qvbr": {**_TIMED, "target_bit_rate": "u32"},
    "cvbr": {**_TIMED, "max_bit_rate": "u32", **_LONG},
    "fixqp": {"gop": "u32", **_RATES, "i_qp": "u32", "p_qp": "u32", "b_qp": "u32"},
}
RC_STRUCTS: dict[str, Any] = {
    f"{codec}_{kind}": Struct(f"{codec}_{kind}", **fields)
    for codec in ("h264", "h265")
    for kind, fields in _RC_FIELDS.items()
}


class _RcAttr(Struct):
    """The rate control attributes: a union in C, of which the member that `rc_mode` names must be there."""

    def read(self, dictionary: Any) -> Fields:
        values = super().read(dictionary)
        member = "_".join(RC_MODES.get(values.rc_mode, ()))
        if member in RC_STRUCTS and not isinstance(dictionary.get(member), dict):
            raise Raise(TypeError(f"rc_attr with rc_mode {values.rc_mode} needs the dict {member!r}"))
        return values


_CODEC_ATTR: dict[str, Any] = {"rcn_ref_share_buf_en": "bool", "frame_buf_ratio": "u32"}
VENC_ATTR = Struct(
    "venc_attr",
    type="i32",
    max_pic_width="u32",
    max_pic_height="u32",
    buf_size="u32",
    profile="u32",
    is_by_frame="bool",
    pic_width="u32",
    pic_height="u32",
    h264_attr=Struct("h264_attr", **_CODEC_ATTR),
    h265_attr=Struct("h265_attr", **_CODEC_ATTR),
)
RC_ATTR = _RcAttr("rc_attr", rc_mode="i32", **RC_STRUCTS)
GOP_ATTR = Struct(
    "gop_attr",
    gop_mode="i32",
    normal_p=Struct("normal_p", ip_qp_delta="i32"),
    dual_p=Struct("dual_p", sp_interval="u32", sp_qp_delta="i32", ip_qp_delta="i32"),
    smart_p=Struct("smart_p", bg_interval="u32", bg_qp_delta="i32", vi_qp_delta="i32"),
)
CHN_ATTR = Struct("channel attr", venc_attr=VENC_ATTR, rc_attr=RC_ATTR, gop_attr=GOP_ATTR)
START_PARAM = Struct("start param", recv_pic_num="i32")
PACK = Struct(
    "pack",
    phys_addr="u64",
    input_addr="ptr",
    addr="ptr",
    len="u32",
    pts="u64",
    is_frame_end="bool",
    offset="u32",
    data_num="u32",
)
STREAM = Struct("stream", pack_cnt="u32", seq="u32", pack=[PACK, 4096])
STATUS = Struct(
    "status",
    left_pics="u32",
    left_stream_bytes="u32",
    left_stream_frames="u32",
    cur_packs="u32",
    left_recv_pics="u32",
    left_enc_pics="u32",
    is_jpeg_snap_end="bool",
    release_pic_pts="u64",
    stream_info=Struct(
        "stream_info",
        ref_type="i32",
        pic_bytes="u32",
        pic_cnt="u32",
        start_qp="u32",
        mean_qp="u32",
        is_p_skip="bool",
        residual_bits="u32",
        head_bits="u32",
        madi_val="u32",
        madp_val="u32",
        sse_sum="u64",
        sse_lcu_cnt="u32",
        psnr_val="f64",
    ),
)
JPEG_PARAM = Struct(
    "jpeg param", qfactor="u32", y_qt="u8[64]", cb_qt="u8[64]", cr_qt="u8[64]", mcu_per_ecs="u32", ecs_output_en="bool"
)
HUFFMAN_TABLES = {
    "dc": Struct("dc table", dc_bits="u8[16]", dc_value="u8[12]"),
    "ac": Struct("ac table", ac_bits="u8[16]", ac_value="u8[162]"),
}
HUFFMAN_PARAM = Struct(
    "huffman param", dc_tables=[HUFFMAN_TABLES["dc"], 3], ac_tables=[HUFFMAN_TABLES["ac"], 3], reserved="i32[2]"
)
CHN_PARAM = Struct(
    "channel param",
    color_to_grey_en="bool",
    priority="u32",
    max_stream_cnt="u32",
    poll_wake_up_frame_cnt="u32",
    crop_info=Struct("crop_info", enable="bool", rect=RECT),
    frame_rate=Struct("frame_rate", src_frame_rate="i32", dst_frame_rate="i32"),
)
_VIDEO_MOD: dict[str, Any] = {"one_stream_buf": "u32", "mini_buf_mode": "u32", "low_power_mode": "u32", "vb_src": "i32", "qp_hist_en": "bool", "max_user_data_len": "u32"}  # fmt: skip
MOD_PARAM = Struct(
    "mod param",
    mod_type="i32",
    venc_mod_param=Struct("venc_mod_param", buf_cache="u32", frame_buf_recycle="u32"),
    h264_mod_param=Struct("h264_mod_param", **_VIDEO_MOD),
    h265_mod_param=Struct("h265_mod_param", **_VIDEO_MOD),
    jpeg_mod_param=Struct(
        "jpeg_mod_param", one_stream_buf="u32", mini_buf_mode="u32", clear_stream_buf="u32", dering_mode="u32"
    ),
)
USER_FRAME = Struct(
    "user frame",
    user_frame=FRAME_INFO,
    user_rc_info=Struct(
        "user_rc_info",
        qp_map_valid="bool",
        skip_weight_valid="bool",
        blk_start_qp="u32",
        qp_map_phy_addr="u64",
        skip_weight_phy_addr="u64",
        frame_type="i32",
    ),
    user_roi_map=Struct("user_roi_map", valid="bool", phy_addr="u64"),
)
CU_PRED = Struct(
    "cu_pred",
    pred_mode="i32",
    intra32_cost="u32",
    intra16_cost="u32",
    intra8_cost="u32",
    intra4_cost="u32",
    inter64_cost="u32",
    inter32_cost="u32",
    inter16_cost="u32",
    inter8_cost="u32",
)
_ASPECT = Struct("vui_aspect_ratio", aspect_ratio_info_present_flag="u8", aspect_ratio_idc="u8", overscan_info_present_flag="u8", overscan_appropriate_flag="u8", sar_width="u16", sar_height="u16")  # fmt: skip
_SIGNAL = Struct("vui_video_signal", video_signal_type_present_flag="u8", video_format="u8", video_full_range_flag="u8", colour_description_present_flag="u8", colour_primaries="u8", transfer_characteristics="u8", matrix_coefficients="u8")  # fmt: skip
_RESTRICTION = Struct("vui_bitstream_restric", bitstream_restriction_flag="u8")


def _vui(name: str, last: str, kind: str) -> Struct:
    time_info: dict[str, Any] = {
        "timing_info_present_flag": "u8",
        "num_units_in_tick": "u32",
        "time_scale": "u32",
        last: kind,
    }
    return Struct(
        name,
        vui_aspect_ratio=_ASPECT,
        vui_time_info=Struct("vui_time_info", **time_info),
        vui_video_signal=_SIGNAL,
        vui_bitstream_restric=_RESTRICTION,
    )


H264_VUI = _vui("h264 vui", "fixed_frame_rate_flag", "u8")
H265_VUI = _vui("h265 vui", "num_ticks_poc_diff_one_minus1", "u32")
INTRA_REFRESH = Struct("intra refresh", refresh_enable="bool", intra_refresh_mode="i32", refresh_num="u32", req_i_qp="u32")  # fmt: skip
REF_PARAM = Struct("ref param", base="u32", enhance="u32", pred_en="bool")
ROI_ATTR = Struct("roi attr", idx="u32", enable="bool", is_abs_qp="bool", qp="i32", rect=RECT)
SLICE_SPLIT = Struct("slice split", split_enable="bool", split_mode="u32", split_size="u32", slice_output_en="bool", reserved="u32[2]")  # fmt: skip
STREAMCOPY_PARAM = Struct("stream copy param", copy_en="bool", copy_interval="u32")

_COMMON: dict[str, Any] = {"max_reencode_times": "i32", "qpmap_en": "bool"}
_PROPORTION: dict[str, Any] = {"max_i_proportion": "u32", "min_i_proportion": "u32"}
_QP: dict[str, Any] = {"max_qp": "u32", "min_qp": "u32", "max_i_qp": "u32", "min_i_qp": "u32"}
_AVBR: dict[str, Any] = {"min_still_percent": "i32", "max_still_qp": "u32", "min_still_psnr": "u32", "min_qp_delta": "u32", "motion_sensitivity": "u32", "save_bitrate_en": "bool"}  # fmt: skip
_MODE_PARAMS: dict[str, dict[str, Any]] = {
    "cbr": {},
    "vbr": {"chg_pos": "u32"},
    "avbr": {"chg_pos": "u32", **_AVBR},
    "qvbr": {"max_bit_percent": "u32", "min_bit_percent": "u32", "max_psnr_fluctuate": "u32", "min_psnr_fluctuate": "u32"},
    "cvbr": {"min_qp_delta": "u32", "max_qp_delta": "u32", "extra_bit_percent": "u32", "long_term_stats_time_unit": "u32"},
}  # fmt: skip
_MJPEG_PARAMS: dict[str, Any] = {"max_qfactor": "u32", "min_qfactor": "u32"}


def _mode_param(codec: str, kind: str) -> Struct:
    name = f"{codec}_{kind}_param"
    if codec == "mjpeg":
        position: dict[str, Any] = {"chg_pos": "u32"} if kind == "vbr" else {}
        return Struct(name, **_MJPEG_PARAMS, **position)
    mode: dict[str, Any] = {"qpmap_mode": "i32"} if codec == "h265" else {}
    return Struct(name, **_PROPORTION, **_QP, **_COMMON, **mode, **_MODE_PARAMS[kind])


RC_PARAM_NAMES = {
    mode: f"{codec}_{kind}_param" for mode, (codec, kind) in RC_MODES.items() if kind not in ("fixqp", "qpmap")
}
_MODE_STRUCTS: dict[str, Any] = {name: _mode_param(*RC_MODES[mode]) for mode, name in RC_PARAM_NAMES.items()}
RC_PARAM = Struct(
    "rc param",
    threshold_i="u32[16]",
    threshold_p="u32[16]",
    threshold_b="u32[16]",
    direction="u32",
    row_qp_delta="u32",
    first_frame_start_qp="i32",
    scene_chg_detect=Struct("scene_chg_detect", detect_scene_chg_en="bool", adapt_insert_idr_frame_en="bool"),
    **_MODE_STRUCTS,
)
