"""acl.himpi: what a board refuses is refused in strict mode and noted else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import pytest

import acl
from softnpu.media import rules
from softnpu.media.v2 import coder
from tests.faces.acl.media.v1.video_support import video
from tests.faces.acl.media.v2.coder_support import (
    H264,
    H265,
    JPEG,
    LIMIT_MS,
    VDEC,
    VENC,
    Got,
    channel_attr,
    encode_attr,
    flush,
    frame_of,
    open_decoder,
    open_encoder,
    send,
)
from tests.faces.acl.media.v2.support import (
    ARGB,
    GRAY,
    ILLEGAL_PARAM,
    NV12,
    NV16,
    RGB,
    RGBA,
    VPC,
    done,
    noise,
    pic,
    planes,
    put,
    region,
)
from tests.support import message, ok
from tests.waiting import eventually

P, B, NEW = "Ascend310P3", "Ascend310B1", "Ascend910B3"
Answer = int
Dict = dict[str, Any]
NO_MEM = 0x0C


@pytest.fixture
def board(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Starts a process with a chip, a mode, and the VPC channel 0."""

    def start(soc: str, mode: str = "strict") -> None:
        monkeypatch.setenv("SOFTNPU_SOC", soc)
        monkeypatch.setenv("SOFTNPU_CHECK", mode)
        ok(acl.init())
        ok(acl.rt.set_device(0))
        ok(acl.himpi.sys_init())
        ok(acl.himpi.vpc_create_chn(0, {}))

    yield start
    assert acl.finalize() in (0, 100037)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the rules and the channels write into the log."""
    texts: list[str] = []
    writer = type("Log", (), {"write": lambda self, level, text, *more: texts.append(f"{level} {text}")})()
    for module in (rules, coder):
        monkeypatch.setattr(module, "log", lambda: writer)
    rules._note.cache_clear()
    return texts


def result(answer: tuple[int, int]) -> Answer:
    """The code of a call of picture processing, or of its task."""
    task, ret = answer
    return ret or int(acl.himpi.vpc_get_process_result(0, task, LIMIT_MS))


def frame(kind: int, pixels: int) -> Answer:
    """A picture of 64x48 in a frame, with strides that each chip takes."""
    width, height = 64 + 2 * pixels, 48 + 2 * pixels
    out = pic(GRAY, width, height, stride=-(-width // 16) * 16)
    border = dict.fromkeys(("top", "bottom", "left", "right"), pixels) | {"border_type": kind}
    return result(acl.himpi.vpc_copy_make_border(0, pic(GRAY, 64, 48), out, border, LIMIT_MS))


def framed_part(kind: int, batch: bool = False) -> Answer:
    item = {"dest_pic_info": pic(GRAY, 64, 64), "crop_region": region(0, 0, 32, 32), "dest_left_offset": 16, "dest_top_offset": 16}  # fmt: skip
    item |= {"resize_info": {"resize_width": 32, "resize_height": 32}, "border_type": kind}
    source = pic(GRAY, 64, 64)
    if batch:
        return result(acl.himpi.vpc_batch_crop_resize_make_border(0, [source], 1, [item], [1], LIMIT_MS))
    return result(acl.himpi.vpc_crop_resize_make_border(0, source, [item], 1, LIMIT_MS))


def equalized(form: int, width: int = 64, height: int = 48) -> Answer:
    return result(acl.himpi.vpc_equalize_hist(0, pic(form, width, height), pic(form, width, height), {}, LIMIT_MS))


def pyramid(divisor: int = 256, **border: int) -> Answer:
    sides = dict.fromkeys(("top", "bottom", "left", "right"), 2) | border
    return result(acl.himpi.vpc_pyrdown(0, pic(GRAY, 64, 48), [pic(GRAY, 32, 24)], 1, None, divisor, sides, LIMIT_MS))


def blurred(name: str = "blur", kind: int = 0, anchor: int = -1) -> Answer:
    config = {"kernel_size": {"width": 3, "height": 3}, "iterations": 1, "border_type": kind, "anchor": {"x": anchor, "y": anchor}}  # fmt: skip
    key = {"gaussian_blur": "gaussian_blur_cfg", "filter2d": "filter_2d_cfg"}.get(name, "blur_cfg")
    config |= {"reserved": [0, 0], "filter": [[0.0] * 3] * 3, "sigma_x": 1.0}
    param = {"src": pic(GRAY, 64, 48), "dst": pic(GRAY, 64, 48), key: config}
    return result(getattr(acl.himpi, f"vpc_{name}")(0, param, LIMIT_MS))


def warped(form: int) -> Answer:
    matrix = {"matrix_type": 0, "matrix": [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0] * 4]}
    param = {"src": pic(form, 64, 48), "dst": pic(form, 64, 48), "transform_config": {}}
    return result(acl.himpi.vpc_warp_affine(0, matrix, param, LIMIT_MS))


def remapped(form: int) -> Answer:
    size = ok(acl.himpi.vpc_get_lut_mem_size(64, 48))
    lut = dict.fromkeys(("src_pic_width", "dest_pic_width"), 64) | dict.fromkeys(("src_pic_height", "dest_pic_height"), 48)  # fmt: skip
    lut |= {"lut": put(np.zeros(size, np.uint8)), "lut_size": size}
    param = {"src": pic(form, 64, 48), "dst": pic(form, 64, 48), "transform_config": {}}
    return result(acl.himpi.vpc_lut_remap(0, param, lut, LIMIT_MS))


def covered(is_solid: int) -> Answer:
    points = [{"x": 8, "y": 8}, {"x": 40, "y": 8}, {"x": 40, "y": 30}, {"x": 8, "y": 30}]
    cover = {"type": 1, "color": 0xFF, "quad": {"is_solid": is_solid, "thick": 2, "point": points}}
    param = {"src": pic(NV12, 64, 48), "dst": pic(NV12, 64, 48), "count": 1, "cover": [cover]}
    return result(acl.himpi.vpc_draw_cover(0, param, LIMIT_MS))


def lined(form: int, x: int) -> Answer:
    line = {"start_point": {"x": x, "y": 8}, "end_point": {"x": 40, "y": 30}, "thick": 2, "color": 0xFF}
    param = {"src": pic(form, 64, 48), "dst": pic(form, 64, 48), "count": 1, "line": [line]}
    return result(acl.himpi.vpc_draw_line(0, param, LIMIT_MS))


def resized(size: tuple[int, int], target: tuple[int, int]) -> Answer:
    return result(acl.himpi.vpc_resize(0, pic(GRAY, *size), pic(GRAY, *target), 0, 0, 0, LIMIT_MS))


def scaled_by(way: int) -> Answer:
    return result(acl.himpi.vpc_resize(0, pic(GRAY, 64, 64), pic(GRAY, 32, 32), 0, 0, way, LIMIT_MS))


def counted(address: int) -> Answer:
    return result(acl.himpi.vpc_calc_hist_v2(0, pic(GRAY, 64, 48), LIMIT_MS, address))


def decoder(payload: int, width: int, height: int) -> Answer:
    code = int(acl.himpi.vdec_create_chn(0, channel_attr(payload, width, height)))
    if not code:
        ok(acl.himpi.vdec_destroy_chn(0))
    return code


def encoder(codec: str, width: int, height: int, **more: int) -> Answer:
    code = int(acl.himpi.venc_create_chn(0, encode_attr(codec, width, height, buf_size=0 if codec == "jpeg" else 1 << 21, **more)))  # fmt: skip
    if not code:
        ok(acl.himpi.venc_destroy_chn(0))
    return code


def lut_size(width: int, height: int) -> Answer:
    return int(acl.himpi.vpc_get_lut_mem_size(width, height)[1])


WRONG = VPC | ILLEGAL_PARAM
CASES: dict[str, tuple[str, Callable[[], Answer], Callable[[], Answer], str]] = {
    "reflect": (P, lambda: frame(2, 2), lambda: frame(2, 3), "reflected border of 3"),
    "reflect 101": (P, lambda: frame(3, 2), lambda: frame(3, 8), "reflected border of 8"),
    "reflect elsewhere": (P, lambda: frame(1, 8), lambda: frame(4, 2), "border type 4"),
    "border of a part": (NEW, lambda: framed_part(1), lambda: framed_part(2), "border type 2"),
    "border of a batch": (NEW, lambda: framed_part(0, True), lambda: framed_part(1, True), "border type 1"),
    "equalize": (NEW, lambda: equalized(RGB), lambda: equalized(RGBA), "vpc_equalize_hist of RGBA_8888"),
    "equalize, size": (NEW, lambda: equalized(GRAY, 16, 4096), lambda: equalized(GRAY, 16, 4098), "16x4098"),
    "pyramid, border": (P, pyramid, lambda: pyramid(left=4), "(2, 2, 4, 2) pixels"),
    "pyramid, divisor": (P, lambda: pyramid(128), lambda: pyramid(0), "divisor of a pyramid is 0"),
    "blur, border": (NEW, lambda: blurred(kind=1), lambda: blurred(kind=2), "border type 2"),
    "gauss, border": (NEW, lambda: blurred("gaussian_blur"), lambda: blurred("gaussian_blur", 3), "border type 3"),
    "erode, anchor": (NEW, lambda: blurred("erode"), lambda: blurred("erode", anchor=0), "anchor is (0, 0)"),
    "filter2d, anchor": (NEW, lambda: blurred("filter2d"), lambda: blurred("filter2d", anchor=0), "anchor is (0, 0)"),
    "warp": (NEW, lambda: warped(RGB), lambda: warped(ARGB), "vpc_warp_affine of ARGB_8888"),
    "remap": (NEW, lambda: remapped(NV12), lambda: remapped(NV16), "vpc_lut_remap of YUV_SEMIPLANAR_422"),
    "table": (NEW, lambda: lut_size(10, 6), lambda: lut_size(9, 6), "9x6, outside 10x6 to 4096x8192"),
    "large table": (B, lambda: lut_size(4096, 8192), lambda: lut_size(4097, 8), "4097x8"),
    "cover": (B, lambda: covered(1), lambda: covered(0), "not solid"),
    "line on 420": (B, lambda: lined(NV12, 4), lambda: lined(NV12, 5), "(5, 8)"),
    "line on 422": (B, lambda: lined(GRAY, 5), lambda: lined(NV16, 5), "(5, 8)"),
    "wide output": (B, lambda: resized((128, 16), (5000, 16)), lambda: resized((127, 16), (5000, 16)), "127x16"),
    "wide input": (B, lambda: resized((8208, 16), (256, 16)), lambda: resized((8208, 14), (256, 14)), "8208x14"),
    "interpolation": (P, lambda: scaled_by(1), lambda: scaled_by(2), "interpolation 2 is not among [0, 1]"),
    "histogram": (P, lambda: counted(put(np.zeros(3072, np.uint8))), lambda: counted(ok(acl.rt.malloc(3072, 0))), "acl.rt.malloc"),
    "histogram, host": (NEW, lambda: counted(ok(acl.rt.malloc(3072, 0))), lambda: counted(ok(acl.rt.malloc_host(3072))), "host memory"),
    "hevc": (B, lambda: decoder(H264, 5600, 128), lambda: decoder(H265, 5600, 128), "the hevc video is 5600x128"),
    "h264 area": (P, lambda: encoder("h264", 4096, 2304), lambda: encoder("h264", 4096, 2306), "4096x2306"),
    "jpeg, least": (NEW, lambda: encoder("jpeg", 32, 32), lambda: encoder("jpeg", 30, 32), "30x32"),
    "jpeg, most": (NEW, lambda: encoder("jpeg", 8192, 32), lambda: encoder("jpeg", 8194, 32), "8194x32"),
}  # fmt: skip
NOT_NOTED = ("histogram", "histogram, host")  # which memory it is is looked up in strict mode only


@pytest.mark.parametrize("case", CASES)
def test_a_board_refuses_it(case: str, board: Callable[..., None]) -> None:
    soc, good, bad, word = CASES[case]
    board(soc)
    assert good() == 0, message()
    assert bad() & 0xFFF == ILLEGAL_PARAM
    assert f"{soc} refuses this: " in (text := message()) and word in text


@pytest.mark.parametrize("case", CASES)
def test_else_it_is_noted_once(case: str, board: Callable[..., None], lines: list[str]) -> None:
    soc, good, bad, word = CASES[case]
    board(soc, "")
    assert good() == 0 and lines == []
    assert bad() == 0, message()
    assert bad() == 0, message()
    assert sum(word in line for line in lines) == (case not in NOT_NOTED)


@pytest.mark.parametrize(("mode", "code"), [("strict", VDEC + NO_MEM), ("", 0)])
def test_the_910b_has_32_channels_of_vdec(mode: str, code: int, board: Callable[..., None]) -> None:
    """The 910B has 32 of them among 256 ids; JPEG does not count."""
    board(NEW, mode)
    for number in range(32):
        ok(acl.himpi.vdec_create_chn(number, channel_attr((H264, H265)[number % 2], 128, 128)))
    ok(acl.himpi.vdec_create_chn(200, channel_attr(JPEG, 128, 128)))
    assert acl.himpi.vdec_create_chn(32, channel_attr(H264, 128, 128)) == code
    ok(acl.himpi.vdec_destroy_chn(5))
    ok(acl.himpi.vdec_create_chn(33, channel_attr(H264, 128, 128)))


# ---- in every mode ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("soc", "keeps"), [(B, False), (NEW, True)])
def test_alpha_of_scaled_pictures(soc: str, keeps: bool, board: Callable[..., None]) -> None:
    board(soc, "")
    data = noise(48, 64, 4)
    data[:, :, 3] = 200
    for form, alpha, order in ((RGBA, 3, [0, 1, 2]), (ARGB, 0, [1, 2, 3])):
        src, out, same = pic(RGBA, 64, 48, data), pic(form, 32, 24), pic(form, 64, 48)
        done(0, acl.himpi.vpc_resize(0, src, out, 0, 0, 0, LIMIT_MS))
        done(0, acl.himpi.vpc_convert_color(0, src, same, LIMIT_MS))
        (scaled,), (converted,) = planes(out), planes(same)
        assert (scaled[:, :, alpha] == (200 if keeps else 0)).all()
        assert np.abs(scaled[:, :, order].astype(int) - cv2.resize(data[:, :, :3], (32, 24))).max() <= 1
        assert (converted[:, :, alpha] == 200).all()


def test_the_divisor_of_the_usual_kernel(board: Callable[..., None]) -> None:
    """It counts, as that of an own kernel does; 0 is 256."""
    board(P, "")
    src = pic(GRAY, 64, 48, np.full((48, 64), 60, np.uint8))
    border = dict.fromkeys(("top", "bottom", "left", "right"), 2) | {"border_type": 1}
    for divisor, value in ((256, 60), (0, 60), (512, 30), (128, 120)):
        out = pic(GRAY, 32, 24)
        done(0, acl.himpi.vpc_pyrdown(0, src, [out], 1, None, divisor, border, LIMIT_MS))
        assert (planes(out)[0] == value).all()
    assert acl.himpi.vpc_pyrdown(0, src, [pic(GRAY, 32, 24)], 1, None, 200, border, 0) == (0, WRONG)


@pytest.mark.parametrize("values", [[], [0], [0, 0, 0]])
def test_a_reserved_list_of_another_length(himpi: None, values: list[int]) -> None:
    with pytest.raises(ValueError, match="must have exactly 2"):
        acl.himpi.sys_get_image_align_info([0], 1, {"width": 64, "height": 64, "pixel_format": 1, "reserved": values})


def test_the_profile_svc_t_is_refused_by_name(himpi: None) -> None:
    assert acl.himpi.venc_create_chn(0, encode_attr("h264", 160, 128, profile=3)) == VENC + 8
    assert "SVC-T" in message()


def test_rate_control_without_effect_is_told_once(himpi: None, lines: list[str]) -> None:
    open_encoder(0, "h264", 160, 128)
    param = ok(acl.himpi.venc_get_rc_param(0, 2))
    for qp in (20, 30):
        ok(acl.himpi.venc_set_rc_param(0, param | {"first_frame_start_qp": qp}))
    assert sum("first_frame_start_qp has no effect" in line for line in lines) == 1
    assert not any("threshold" in line for line in lines)
    ok(acl.himpi.venc_destroy_chn(0))


def test_a_file_that_finds_no_room_says_why(himpi: None, lines: list[str]) -> None:
    open_encoder(0, "jpeg", 160, 128, buf_size=0)
    source, target = put(noise(192, 160)), ok(acl.himpi.dvpp_malloc(0, 4096))
    ok(acl.himpi.venc_send_jpege_frame(0, frame_of(source, 160, 128), {"addr": target, "len": 100}, LIMIT_MS))
    stream = ok(acl.himpi.venc_get_stream(0, {"pack_cnt": 1}, LIMIT_MS))
    assert stream["pack"][0]["len"] == 0
    assert "its output memory 100" in message()
    assert any("its output memory 100" in line for line in lines)
    ok(acl.himpi.venc_release_stream(0, stream))
    ok(acl.himpi.venc_destroy_chn(0))


def test_the_time_of_the_latest_decoded_frame(himpi: None) -> None:
    """Frames that were not fetched count, those that failed do not."""
    open_decoder(0, H264, 160, 128)
    for number, data in enumerate(video("h264", 3, 160, 128), 7):
        assert send(0, data, 160 * 128 * 3 // 2 if number < 9 else 100, number) == 0
    flush(0)
    ok(acl.himpi.vdec_stop_recv_stream(0))
    first = Got(0)
    assert eventually(lambda: ok(acl.himpi.vdec_query_status(0))["dec_stream_frames"] >= 3)
    assert (first.pts, ok(acl.himpi.vdec_query_status(0))["latest_frame_pts"]) == (7, 8)
    ok(acl.himpi.vdec_destroy_chn(0))
