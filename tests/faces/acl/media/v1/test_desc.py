"""acl.media: descriptions of pictures, packets, regions and settings."""

from __future__ import annotations

from typing import Any

import pytest

import acl
from tests.faces.acl.media.v1.support import download
from tests.support import in_thread, message, ok

pytestmark = pytest.mark.usefixtures("runtime")
media = acl.media
FIELDS = [
    *(("pic_desc", name) for name in ("data", "size", "format", "width", "height", "width_stride", "height_stride", "ret_code")),
    *(("stream_desc", name) for name in ("data", "size", "format", "timestamp", "ret_code", "eos")),
    *(("border_config", name) for name in ("top", "bottom", "left", "right")),
]  # fmt: skip
KINDS = ("pic_desc", "stream_desc", "resize_config", "border_config", "jpege_config", "channel_desc", "hist", "lut_map")


def call(name: str, *arguments: Any) -> Any:
    return getattr(media, f"dvpp_{name}")(*arguments)


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda value: value)
def test_a_field_is_what_was_set(kind: str, field: str) -> None:
    desc = call(f"create_{kind}")
    assert type(desc) is int
    assert call(f"get_{kind}_{field}", desc) == 0
    assert call(f"set_{kind}_{field}", desc, 77) == 0
    assert call(f"get_{kind}_{field}", desc) == 77
    others = [name for owner, name in FIELDS if owner == kind and name != field]
    assert [call(f"get_{kind}_{name}", desc) for name in others] == [0] * len(others)
    ok(call(f"destroy_{kind}", desc))


@pytest.mark.parametrize("kind", KINDS)
def test_destroying_twice_and_wrong_handles(kind: str) -> None:
    desc = call(f"create_{kind}")
    assert desc > 0
    other = acl.create_data_buffer(0, 0)
    assert call(f"destroy_{kind}", other) == 107000
    assert call(f"destroy_{kind}", 0) == 100000
    assert call(f"destroy_{kind}", 12345) == 107000
    ok(call(f"destroy_{kind}", desc))
    assert call(f"destroy_{kind}", desc) == 107000
    assert "destroyed already" in message()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("hist", "lut_map")])
def test_plain_descriptions_may_be_destroyed_after_finalize(kind: str) -> None:
    desc = call(f"create_{kind}")
    ok(acl.finalize())
    ok(call(f"destroy_{kind}", desc))


def test_large_values_wrap_as_c_does() -> None:
    desc = media.dvpp_create_pic_desc()
    ok(media.dvpp_set_pic_desc_width(desc, (1 << 32) + 5))
    assert media.dvpp_get_pic_desc_width(desc) == 5
    packet = media.dvpp_create_stream_desc()
    ok(media.dvpp_set_stream_desc_timestamp(packet, (1 << 64) - 1))
    assert media.dvpp_get_stream_desc_timestamp(packet) == (1 << 64) - 1


def test_a_getter_of_nothing_answers_0() -> None:
    assert media.dvpp_get_pic_desc_width(0) == 0
    assert media.dvpp_get_stream_desc_eos(media.dvpp_create_pic_desc()) == 0
    assert "picture description" in message()


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_lends_its_descriptions() -> None:
    batch = media.dvpp_create_batch_pic_desc(3)
    descs = [media.dvpp_get_pic_desc(batch, index) for index in range(3)]
    assert len(set(descs)) == 3 and all(descs)
    assert media.dvpp_get_pic_desc(batch, 1) == descs[1]
    ok(media.dvpp_set_pic_desc_width(descs[1], 9))
    assert [media.dvpp_get_pic_desc_width(desc) for desc in descs] == [0, 9, 0]
    assert media.dvpp_destroy_pic_desc(descs[0]) == 100000
    assert "dvpp_destroy_batch_pic_desc" in message()
    ok(media.dvpp_destroy_batch_pic_desc(batch))
    assert media.dvpp_set_pic_desc_width(descs[1], 9) == 107000
    assert media.dvpp_destroy_batch_pic_desc(batch) == 107000


@pytest.mark.parametrize("count", [0, 257, 1 << 31])
def test_batches_that_cannot_be(count: int) -> None:
    assert media.dvpp_create_batch_pic_desc(count) == 0
    assert "1 to 256" in message()


def test_a_picture_that_is_not_in_the_batch() -> None:
    assert media.dvpp_get_pic_desc(media.dvpp_create_batch_pic_desc(2), 2) == 0
    assert "0 to 1" in message()


# ---- settings --------------------------------------------------------------------------------------------------------


def test_resize_and_jpeg_settings() -> None:
    resize = media.dvpp_create_resize_config()
    assert media.dvpp_get_resize_config_interpolation(resize) == 0
    ok(media.dvpp_set_resize_config_interpolation(resize, 5))
    assert media.dvpp_set_resize_config_interpolation(resize, 6) == 100000
    assert media.dvpp_get_resize_config_interpolation(resize) == 5
    jpeg = media.dvpp_create_jpege_config()
    assert media.dvpp_get_jpege_config_level(jpeg) == 100
    ok(media.dvpp_set_jpege_config_level(jpeg, 0))
    assert media.dvpp_get_jpege_config_level(jpeg) == 0
    assert media.dvpp_set_jpege_config_level(jpeg, 101) == 100000


def test_settings_of_borders_are_kept_and_checked() -> None:
    border = media.dvpp_create_border_config()
    ok(media.dvpp_set_border_config_border_type(border, 3))
    assert media.dvpp_get_border_config_border_type(border) == 3
    assert media.dvpp_set_border_config_border_type(border, 4) == 100000
    assert media.dvpp_set_border_config_border_type(border, -1) == 100000
    for index in range(4):
        ok(media.dvpp_set_border_config_value(border, index, index + 0.5))
    assert [media.dvpp_get_border_config_value(border, index) for index in range(4)] == [0.5, 1.5, 2.5, 3.5]
    assert media.dvpp_set_border_config_value(border, 4, 1.0) == 100000
    assert media.dvpp_get_border_config_value(border, 4) == 0.0


# ---- histograms and lookup tables ------------------------------------------------------------------------------------


def test_a_histogram_has_memory_of_its_own() -> None:
    before = ok(acl.rt.get_mem_info(12))[0]
    hist = media.dvpp_create_hist()
    assert media.dvpp_get_hist_dims(hist) == 3
    rows = [ok(media.dvpp_get_hist_data(hist, dim)) for dim in range(3)]
    assert [length for _, length in rows] == [256] * 3
    assert rows[1][0] - rows[0][0] == rows[2][0] - rows[1][0] == 1024
    ok(acl.rt.memset(rows[2][0], 1024, 9, 1024))
    assert media.dvpp_get_hist_data(hist, 3) == (0, 0, 100000)
    ok(media.dvpp_clear_hist(hist))
    assert not download(rows[0][0], 3072).any()
    assert acl.media.dvpp_free(rows[0][0]) == 107000  # it belongs to the histogram
    assert media.dvpp_get_hist_ret_code(hist) == 0
    ok(media.dvpp_destroy_hist(hist))
    assert ok(acl.rt.get_mem_info(12))[0] == before
    assert acl.rt.memset(rows[0][0], 4, 0, 4) == 107000


def test_a_lookup_table_can_be_written() -> None:
    lut = media.dvpp_create_lut_map()
    assert media.dvpp_get_lut_map_dims(lut) == 3
    ptr, length = ok(media.dvpp_get_lut_map_data(lut, 2))
    assert length == 256
    ok(acl.rt.memset(ptr, 256, 5, 256))
    assert media.dvpp_get_lut_map_data(lut, 3) == (0, 0, 100000)
    ok(media.dvpp_destroy_lut_map(lut))


def test_without_a_context_there_is_none() -> None:
    assert in_thread(media.dvpp_create_hist) == 0
    assert in_thread(media.dvpp_create_lut_map) == 0


def test_a_histogram_outlives_its_device_only_as_a_handle() -> None:
    hist = media.dvpp_create_hist()
    ok(acl.rt.reset_device(0))
    ok(acl.rt.set_device(0))
    assert media.dvpp_clear_hist(hist) == 107000
    ok(media.dvpp_destroy_hist(hist))
