"""Bodies of `acl.himpi`: video and JPEG encoding."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import on_failure
from softnpu.media.v2.struct import written
from softnpu.media.v2.structs import FRAME_INFO, IMAGE_STREAM
from softnpu.media.v2.sys.system import need_system
from softnpu.media.v2.venc import jpege, module, structs, video
from softnpu.media.v2.venc.channel import EncodeChannel
from softnpu.media.v2.venc.settings import SETTINGS

Dict = dict[str, Any]
_IDR = 2  # of hi_venc_frame_type: 1 none, 2 IDR, 3 skipped P


def _channel(chn: int) -> EncodeChannel:
    return need_system("venc").venc.get(chn)


def _set(chn: int, name: str, fields: Dict) -> None:
    _channel(chn).settings.set(name, SETTINGS[name].struct.read(fields))


def _get(chn: int, name: str) -> Dict:
    return written(SETTINGS[name].struct, lambda: _channel(chn).settings.get(name))


# ---- channels --------------------------------------------------------------------------------------------------------


def venc_create_chn(chn: int, attr: Dict) -> None:
    wanted, system = structs.CHN_ATTR.read(attr), need_system("venc")
    one_packet = module.one_packet(system, wanted.venc_attr.type)
    system.venc.open(chn, lambda: EncodeChannel(chn, wanted, one_packet))


def venc_destroy_chn(chn: int) -> None:
    need_system("venc").venc.take(chn).close()


def venc_start_chn(chn: int, param: Dict) -> None:
    _channel(chn).start(structs.START_PARAM.read(param).recv_pic_num)


def venc_stop_chn(chn: int) -> None:
    _channel(chn).stop()


def venc_query_status(chn: int) -> Dict:
    return written(structs.STATUS, lambda: _channel(chn).status())


def venc_get_fd(chn: int) -> int:
    return _channel(chn).ready.fd


def venc_close_fd(chn: int) -> None:
    _channel(chn).ready.close()


def venc_request_idr(chn: int, _instant: int) -> None:
    _channel(chn).request_idr()  # at once or not: here it is the next picture in both cases


# ---- pictures and streams --------------------------------------------------------------------------------------------


def venc_send_frame(chn: int, frame_info: Dict, ms: int) -> None:
    _channel(chn).send(FRAME_INFO.read(frame_info), ms)


def venc_send_frame_ex(chn: int, frame: Dict, ms: int) -> None:
    user_frame, channel = structs.USER_FRAME.read(frame), _channel(chn)
    rc = user_frame.user_rc_info
    if rc.qp_map_valid or rc.skip_weight_valid or rc.blk_start_qp or user_frame.user_roi_map.valid:
        channel.tell("of user_rc_info and user_roi_map only frame_type has an effect")
    channel.send(user_frame.user_frame, ms, key=rc.frame_type == _IDR)


def venc_send_jpege_frame(chn: int, frame_info: Dict, img_stream: Dict, ms: int) -> None:
    output = IMAGE_STREAM.read(img_stream)
    _channel(chn).send(FRAME_INFO.read(frame_info), ms, target=(output.addr, output.len))


def venc_get_jpege_predicted_size(frame_info: Dict, jpeg_param: Dict) -> int:
    structs.JPEG_PARAM.read(jpeg_param)  # the bound holds for every quality
    return jpege.predicted_size(FRAME_INFO.read(frame_info))


def venc_get_stream(chn: int, stream: Dict, ms: int) -> Dict:
    wanted = structs.STREAM.read(stream)
    with on_failure(lambda: (stream,)):
        number, packs = _channel(chn).get(wanted.pack_cnt, ms)
    return {"pack_cnt": len(packs), "seq": number, "pack": [structs.PACK.write(pack) for pack in packs]}


def venc_release_stream(chn: int, stream: Dict) -> None:
    taken = structs.STREAM.read(stream)
    _channel(chn).release(taken.pack[: taken.pack_cnt])


# ---- settings --------------------------------------------------------------------------------------------------------


def venc_set_chn_attr(chn: int, attr: Dict) -> None:
    _channel(chn).set_attr(structs.CHN_ATTR.read(attr))


def venc_get_chn_attr(chn: int) -> Dict:
    return written(structs.CHN_ATTR, lambda: _channel(chn).attr)


def venc_set_chn_param(chn: int, param: Dict) -> None:
    _set(chn, "chn_param", param)


def venc_get_chn_param(chn: int) -> Dict:
    return _get(chn, "chn_param")


def venc_set_jpeg_param(chn: int, param: Dict) -> None:
    _set(chn, "jpeg_param", param)


def venc_get_jpeg_param(chn: int) -> Dict:
    return _get(chn, "jpeg_param")


def venc_set_jpeg_huffman_param(chn: int, param: Dict) -> None:
    _set(chn, "jpeg_huffman_param", param)


def venc_get_jpeg_huffman_param(chn: int) -> Dict:
    return _get(chn, "jpeg_huffman_param")


def venc_set_cu_pred(chn: int, param: Dict) -> None:
    _set(chn, "cu_pred", param)


def venc_get_cu_pred(chn: int) -> Dict:
    return _get(chn, "cu_pred")


def venc_set_h264_vui(chn: int, vui: Dict) -> None:
    _set(chn, "h264_vui", vui)


def venc_get_h264_vui(chn: int) -> Dict:
    return _get(chn, "h264_vui")


def venc_set_h265_vui(chn: int, vui: Dict) -> None:
    _set(chn, "h265_vui", vui)


def venc_get_h265_vui(chn: int) -> Dict:
    return _get(chn, "h265_vui")


def venc_set_intra_refresh(chn: int, param: Dict) -> None:
    _set(chn, "intra_refresh", param)


def venc_get_intra_refresh(chn: int) -> Dict:
    return _get(chn, "intra_refresh")


def venc_set_ref_param(chn: int, param: Dict) -> None:
    _set(chn, "ref_param", param)


def venc_get_ref_param(chn: int) -> Dict:
    return _get(chn, "ref_param")


def venc_set_slice_split(chn: int, param: Dict) -> None:
    _set(chn, "slice_split", param)


def venc_get_slice_split(chn: int) -> Dict:
    return _get(chn, "slice_split")


def venc_set_streamcopy_param(chn: int, param: Dict) -> None:
    _set(chn, "streamcopy_param", param)


def venc_get_streamcopy_param(chn: int) -> Dict:
    return _get(chn, "streamcopy_param")


def venc_set_scene_mode(chn: int, mode: int) -> None:
    _channel(chn).settings.set_scene_mode(mode)


def venc_get_scene_mode(chn: int) -> int:
    return _channel(chn).settings.scene_mode


def venc_set_rc_param(chn: int, param: Dict) -> None:
    _set(chn, "rc_param", param)


def venc_get_rc_param(chn: int, rc_mode: int) -> Dict:
    return written(structs.RC_PARAM, lambda: _channel(chn).settings.rate_parameters(rc_mode))


def venc_set_roi_attr(chn: int, attr: Dict) -> None:
    _channel(chn).settings.set_region(structs.ROI_ATTR.read(attr))


def venc_get_roi_attr(chn: int, idx: int) -> Dict:
    return written(structs.ROI_ATTR, lambda: _channel(chn).settings.region(idx))


def venc_set_mod_param(param: Dict) -> None:
    module.set_param(need_system("venc"), structs.MOD_PARAM.read(param))


def venc_get_mod_param(param: Dict) -> Dict:
    wanted = structs.MOD_PARAM.read(param)
    return written(structs.MOD_PARAM, lambda: module.get_param(need_system("venc"), wanted.mod_type))


def venc_compact_jpeg_tables(chn: int, table_type: int, enable: int) -> None:
    _channel(chn).settings.set_merged_tables(table_type, enable)


def venc_get_qpmap_stride(width: int) -> int:
    return video.qpmap_stride(width)


def venc_get_qpmap_size(payload: int, width: int, height: int) -> int:
    return video.qpmap_size(payload, width, height)
