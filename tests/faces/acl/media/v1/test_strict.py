"""acl.media: what a board refuses is refused in strict mode and noted else."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PIL import Image

import acl
from softnpu.media import rules
from tests.faces.acl.media.v1.support import NV12, RGB, RGBA, YUV_400, Pic, channel, nv12, rgb, roi, upload
from tests.faces.acl.media.v1.video_support import H264_MAIN, H265, Vdec, video
from tests.support import Reporter, message, ok

media = acl.media
OLD, P, B, NEW = "Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910B3"
INVALID_PARAM, NOT_SUPPORT = 100000, 200001
Board = Callable[..., int]


@pytest.fixture
def board(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Starts a process with a chip and a mode; the answer is a picture channel."""

    def start(soc: str, mode: str = "strict") -> int:
        monkeypatch.setenv("SOFTNPU_SOC", soc)
        monkeypatch.setenv("SOFTNPU_CHECK", mode)
        ok(acl.init())
        ok(acl.rt.set_device(0))
        return channel()

    yield start
    assert acl.finalize() in (0, 100037)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the rules write into the log."""
    texts: list[str] = []
    writer = type("Log", (), {"write": lambda self, level, text, *more: texts.append(text)})()
    monkeypatch.setattr(rules, "log", lambda: writer)
    rules._note.cache_clear()
    return texts


def over(code: int) -> int:
    """The code of a call, or of its task."""
    return code or int(acl.rt.synchronize_stream(0))


def grey_file(ch: int, form: int) -> int:
    file = io.BytesIO()
    Image.fromarray(np.full((64, 128), 90, np.uint8)).save(file, "JPEG")
    address, size = upload(file.getvalue())
    output = Pic(form, 128, 64)
    return over(media.dvpp_jpeg_decode_async(ch, address, size, output.desc, 0))


def scaled(ch: int, size: tuple[int, int], target: tuple[int, int], way: int = 1, forms: tuple[int, int] = (NV12, NV12)) -> int:  # fmt: skip
    config = media.dvpp_create_resize_config()
    ok(media.dvpp_set_resize_config_interpolation(config, way))
    return over(media.dvpp_vpc_resize_async(ch, Pic(forms[0], *size).desc, Pic(forms[1], *target).desc, config, 0))


def cut(ch: int, size: int, target: int) -> int:
    return over(media.dvpp_vpc_crop_async(ch, nv12(128, 128).desc, Pic(NV12, target, 64).desc, roi(0, 0, size, 64), 0))


def encoded(ch: int, rows: int) -> int:
    source = Pic(NV12, 128, 100)
    room = upload(bytes(1 << 20))[0]
    space = ok(media.dvpp_malloc(128 * 160 * 3 // 2))
    ok(media.dvpp_set_pic_desc_data(source.desc, space))
    ok(media.dvpp_set_pic_desc_size(source.desc, 128 * rows * 3 // 2))
    ok(media.dvpp_set_pic_desc_height_stride(source.desc, rows))
    cell = (1 << 20).to_bytes(4, "little")
    return over(media.dvpp_jpeg_encode_async(ch, source.desc, room, acl.util.bytes_to_ptr(cell), 0, 0))


def framed(ch: int, kind: int, pixels: int) -> int:
    border = media.dvpp_create_border_config()
    for side in ("top", "bottom", "left", "right"):
        ok(getattr(media, f"dvpp_set_border_config_{side}")(border, pixels))
    ok(media.dvpp_set_border_config_border_type(border, kind))
    source, target = Pic(YUV_400, 64, 48), Pic(YUV_400, 64 + 2 * pixels, 48 + 2 * pixels)
    return over(media.dvpp_vpc_make_border_async(ch, source.desc, target.desc, border, 0))


def decoded(_ch: int, **fields: int) -> int:
    (data,) = video("h264", 1)
    with Vdec() as vdec:
        code = vdec.send(data, 160 * 128 * 3, **fields)
        vdec.end()
    return code or vdec.results[0].code


def channel_of(_ch: int, entype: int, width: int, height: int, **more: int) -> int:
    """The code of making a channel of VENC."""
    with Reporter() as reporter:
        desc = media.venc_create_channel_desc()
        values = {"thread_id": reporter.tid, "entype": entype, "pic_width": width, "pic_height": height, **more}
        for name, value in values.items():
            ok(getattr(media, f"venc_set_channel_desc_{name}")(desc, value))
        code = int(media.venc_create_channel(desc))
        if not code:
            ok(media.venc_destroy_channel(desc))
        ok(media.venc_destroy_channel_desc(desc))
    return code


def proportion(value: int) -> int:
    desc = media.venc_create_channel_desc()
    code = int(media.venc_set_channel_desc_param(desc, 12, value))
    ok(media.venc_destroy_channel_desc(desc))
    return code


def buffer(ch: int, size: int) -> int:
    return channel_of(ch, H264_MAIN, 128, 128, buf_size=size)


WHOLE = {"width": 160, "height": 128}
Call = Callable[[int], int]
CASES: dict[str, tuple[str, Call, Call, str]] = {
    "grow": (P, lambda ch: scaled(ch, (32, 32), (512, 64)), lambda ch: scaled(ch, (32, 32), (528, 64)), "from 32 to 528"),
    "grow a part": (NEW, lambda ch: cut(ch, 32, 512), lambda ch: cut(ch, 32, 514), "from 32 to 514"),
    "shrink": (B, lambda ch: scaled(ch, (640, 64), (20, 64)), lambda ch: scaled(ch, (660, 64), (20, 64)), "from 660 to 20"),
    "high order, input": (NEW, lambda ch: scaled(ch, (64, 64), (32, 32), 5), lambda ch: scaled(ch, (64, 64), (32, 32), 5, (RGB, NV12)), "of RGB_888"),
    "high order, output": (B, lambda ch: scaled(ch, (64, 64), (32, 32), 5, (YUV_400, NV12)), lambda ch: scaled(ch, (64, 64), (32, 32), 5, (NV12, RGB)), "not RGB_888"),
    "rows for JPEGE": (P, lambda ch: encoded(ch, 112), lambda ch: encoded(ch, 128), "height stride 128"),
    "reflect": (P, lambda ch: framed(ch, 2, 2), lambda ch: framed(ch, 2, 4), "reflected border of 4"),
    "reflect 101": (P, lambda ch: framed(ch, 1, 4), lambda ch: framed(ch, 3, 3), "reflected border of 3"),
    "sides without strides": (P, lambda ch: decoded(ch, **WHOLE, width_stride=160, height_stride=128), lambda ch: decoded(ch, **WHOLE), "all must be set, or none"),
    "one stride": (P, decoded, lambda ch: decoded(ch, **WHOLE, width_stride=160), "(160, 128, 160, 0)"),
    "h264 area": (P, lambda ch: channel_of(ch, H264_MAIN, 4096, 2304), lambda ch: channel_of(ch, H264_MAIN, 4096, 2306), "4096x2306"),
    "buffer of the 310P": (P, lambda ch: buffer(ch, 5 << 20), lambda ch: buffer(ch, (5 << 20) - 1), "buf_size is 5242879"),
    "buffer of the 310": (OLD, lambda ch: buffer(ch, 3686400), lambda ch: buffer(ch, 3686401), "buf_size is 3686401"),
    "proportion": (P, lambda ch: proportion(0), lambda ch: proportion(70), "MAX_IP_PROP"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_board_refuses_it(case: str, board: Board) -> None:
    soc, good, bad, word = CASES[case]
    ch = board(soc)
    assert good(ch) == 0, message()
    assert bad(ch) == (NOT_SUPPORT if case == "proportion" else INVALID_PARAM)
    assert f"{soc} refuses this: " in (text := message()) and word in text


@pytest.mark.parametrize("case", CASES)
def test_else_it_is_noted_once(case: str, board: Board, lines: list[str]) -> None:
    soc, good, bad, word = CASES[case]
    ch = board(soc, "")
    assert good(ch) == 0 and lines == []
    assert bad(ch) == bad(ch) == 0
    assert sum(word in line for line in lines) == 1


@pytest.mark.parametrize(("soc", "code"), [(OLD, True), ("Ascend910A", True), (P, False), (B, False), (NEW, False)])
def test_a_grey_file_stays_grey_on_newer_chips(soc: str, code: bool, board: Board) -> None:
    ch = board(soc)
    assert grey_file(ch, NV12) == 0
    assert bool(grey_file(ch, YUV_400)) is code


def test_h265_may_be_larger(board: Board) -> None:
    ch = board(P)
    assert channel_of(ch, H265, 4096, 2306) == 0


@pytest.mark.parametrize("offset", [1, 8, 40])
def test_pictures_may_start_anywhere(offset: int, board: Board) -> None:
    """The manual asks for aligned addresses; programs cut one block into pieces, and boards take them."""
    ch = board(P)
    source, target = Pic(NV12, 64, 64), Pic(NV12, 32, 32)
    block = ok(media.dvpp_malloc(source.size + 64))
    ok(media.dvpp_set_pic_desc_data(source.desc, block + offset))
    assert over(media.dvpp_vpc_resize_async(ch, source.desc, target.desc, 0, 0)) == 0


@pytest.mark.parametrize(("soc", "alpha"), [(B, 0), (NEW, 200)])
def test_alpha_of_scaled_pictures(soc: str, alpha: int, board: Board) -> None:
    ch = board(soc, "")
    source, target = rgb(64, 48, RGB), Pic(RGBA, 32, 24, fill=7)
    clear = Pic(RGBA, 64, 48)
    clear.write(np.dstack([source.first(), np.full((48, 64), 200, np.uint8)]))
    ok(over(media.dvpp_vpc_resize_async(ch, clear.desc, target.desc, 0, 0)))
    assert (target.first()[:, :, 3] == alpha).all() and target.first()[:, :, :3].any()
    ok(over(media.dvpp_vpc_crop_async(ch, clear.desc, target.desc, roi(2, 2, 32, 24), 0)))
    assert (target.first()[:, :, 3] == 200).all(), "what is not scaled keeps it"
