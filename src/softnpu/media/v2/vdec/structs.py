"""Dictionaries of VDEC and JPEGD."""

from __future__ import annotations

from softnpu.media.v2.struct import Struct

CHN_ATTR = Struct(
    "channel attr",
    type="i32",
    mode="i32",
    pic_width="u32",
    pic_height="u32",
    stream_buf_size="u32",
    frame_buf_size="u32",
    frame_buf_cnt="u32",
    video_attr=Struct("video_attr", ref_frame_num="u32", temporal_mvp_en="bool", tmv_buf_size="u32"),
)
CHN_PARAM = Struct(
    "channel param",
    type="i32",
    display_frame_num="u32",
    video_param=Struct(
        "video_param",
        composite_dec_en="bool",
        slice_input_en="bool",
        err_threshold="i32",
        dec_mode="i32",
        out_order="i32",
        compress_mode="i32",
        video_format="i32",
        quick_mark_mode="i32",
    ),
    pic_param=Struct("pic_param", pixel_format="i32", alpha="u32"),
)
PROTOCOL_PARAM = Struct(
    "protocol param",
    type="i32",
    h264_param=Struct("h264_param", max_slice_num="i32", max_sps_num="i32", max_pps_num="i32"),
    h265_param=Struct(
        "h265_param", max_slice_segment_num="i32", max_vps_num="i32", max_sps_num="i32", max_pps_num="i32"
    ),
)
STREAM = Struct(
    "stream",
    end_of_frame="bool",
    end_of_stream="bool",
    need_display="bool",
    pts="u64",
    private_data="u64",
    len="u32",
    addr="ptr",
)
PIC_INFO = Struct(
    "picture info",
    width="u32",
    height="u32",
    width_stride="u32",
    height_stride="u32",
    pixel_format="i32",
    vir_addr="ptr",
    buffer_size="u32",
    offset_top="u32",
    offset_bottom="u32",
    offset_left="u32",
    offset_right="u32",
)
PIC_BUF_ATTR = Struct(
    "picture buffer attr",
    width="u32",
    height="u32",
    align="u32",
    bit_width="i32",
    pixel_format="i32",
    compress_mode="i32",
)
SUPPLEMENT_INFO = Struct(
    "supplement info",
    type="i32",
    video_supplement_info=Struct("video_supplement_info", frame_type="i32", err_rate="u32", poc="i32"),
)
STATUS = Struct(
    "status",
    type="i32",
    left_stream_bytes="u32",
    left_stream_frames="u32",
    left_decoded_frames="u32",
    is_started="bool",
    recv_stream_frames="u32",
    dec_stream_frames="u32",
    dec_err=Struct(
        "dec_err",
        set_pic_size_err="i32",
        set_protocol_num_err="i32",
        set_ref_num_err="i32",
        set_pic_buf_size_err="i32",
        format_err="i32",
        stream_unsupport="i32",
        pack_err="i32",
        stream_size_over="i32",
        stream_not_release="i32",
    ),
    width="u32",
    height="u32",
    latest_frame_pts="u64",
)
