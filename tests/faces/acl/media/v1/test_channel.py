"""acl.media: picture-processing channels."""

from __future__ import annotations

import pytest

import acl
from tests.faces.acl.media.v1.support import Pic, channel, nv12
from tests.support import Hold, in_thread, message, ok

pytestmark = pytest.mark.usefixtures("runtime")
media = acl.media


def resize(desc: int, stream: int = 0) -> int:
    source, target = nv12(64, 32), Pic(1, 32, 16)
    code: int = media.dvpp_vpc_resize_async(desc, source.desc, target.desc, 0, stream)
    return code


def test_the_life_of_a_channel() -> None:
    desc = media.dvpp_create_channel_desc()
    assert media.dvpp_get_channel_desc_channel_id(desc) == 0
    ok(media.dvpp_create_channel(desc))
    assert media.dvpp_get_channel_desc_channel_id(desc) > 0
    ok(media.dvpp_destroy_channel(desc))
    assert media.dvpp_get_channel_desc_channel_id(desc) == 0
    ok(media.dvpp_create_channel(desc))  # and again
    ok(media.dvpp_destroy_channel(desc))
    ok(media.dvpp_destroy_channel_desc(desc))


def test_open_channels_have_different_numbers() -> None:
    descs = [channel() for _ in range(5)]
    numbers = [media.dvpp_get_channel_desc_channel_id(desc) for desc in descs]
    assert len(set(numbers)) == 5
    ok(media.dvpp_destroy_channel(descs[2]))
    assert media.dvpp_get_channel_desc_channel_id(channel()) == numbers[2]


def test_creating_and_destroying_twice() -> None:
    desc = channel()
    assert media.dvpp_create_channel(desc) == 100000
    assert "a channel already" in message()
    ok(media.dvpp_destroy_channel(desc))
    assert media.dvpp_destroy_channel(desc) == 100000
    assert "no open channel" in message()


def test_a_channel_needs_a_context() -> None:
    desc = in_thread(media.dvpp_create_channel_desc)
    assert desc
    assert in_thread(lambda: media.dvpp_create_channel(desc)) == 107002


def test_a_call_needs_an_open_channel() -> None:
    desc = media.dvpp_create_channel_desc()
    assert resize(desc) == 100000
    assert "dvpp_create_channel" in message()
    assert resize(0) == 100000
    assert resize(acl.rt.create_stream()[0]) == 107000


# ---- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0, 16, 0xFFFFFFFF])
def test_modes_that_are_not_known(mode: int) -> None:
    assert media.dvpp_set_channel_desc_mode(media.dvpp_create_channel_desc(), mode) == 100000


def test_a_channel_has_the_engines_of_its_mode() -> None:
    ok(resize(channel(1)))
    assert resize(channel(2 | 4 | 8)) == 100000
    assert "without VPC" in message()


def test_the_mode_is_set_before() -> None:
    desc = channel(1)
    assert media.dvpp_set_channel_desc_mode(desc, 15) == 100000
    assert "before dvpp_create_channel" in message()


def test_the_colour_matrix_is_the_only_parameter() -> None:
    desc = media.dvpp_create_channel_desc()
    assert media.dvpp_get_channel_desc_param(desc, 0) == (4, 0, 0)
    assert media.dvpp_set_channel_desc_param(desc, 0, 3) == (desc, 0)
    assert media.dvpp_get_channel_desc_param(desc, 0) == (4, 3, 0)
    assert media.dvpp_set_channel_desc_param(desc, 0, 6) == (desc, 100000)
    assert media.dvpp_set_channel_desc_param(desc, 1, 0) == (desc, 100000)
    assert media.dvpp_get_channel_desc_param(desc, 1) == (0, 0, 100000)
    assert media.dvpp_get_channel_desc_param(desc, 0) == (4, 3, 0)


# ---- in use ----------------------------------------------------------------------------------------------------------


def test_a_channel_that_is_destroyed_in_use_finishes_its_tasks() -> None:
    desc, stream = channel(), ok(acl.rt.create_stream())
    source, target = nv12(64, 32), Pic(1, 64, 32)
    with Hold(stream):
        ok(media.dvpp_vpc_resize_async(desc, source.desc, target.desc, 0, stream))
        ok(media.dvpp_destroy_channel(desc))
        ok(media.dvpp_destroy_channel_desc(desc))
    ok(acl.rt.synchronize_stream(stream))
    assert (target.first() == source.first()).all()


@pytest.fixture
def strict(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))


@pytest.mark.usefixtures("strict")
def test_strict_mode_refuses_that() -> None:
    desc, stream = channel(), ok(acl.rt.create_stream())
    source, target = nv12(64, 32), Pic(1, 64, 32)
    with Hold(stream):
        ok(media.dvpp_vpc_resize_async(desc, source.desc, target.desc, 0, stream))
        assert media.dvpp_destroy_channel(desc) == 100000
        assert "synchronize_stream" in message()
    ok(acl.rt.synchronize_stream(stream))
    assert media.dvpp_destroy_channel_desc(desc) == 100000
    ok(media.dvpp_destroy_channel(desc))
    ok(media.dvpp_destroy_channel_desc(desc))


def test_a_description_that_goes_first_takes_its_channel_along() -> None:
    desc = channel()
    number = media.dvpp_get_channel_desc_channel_id(desc)
    ok(media.dvpp_destroy_channel_desc(desc))
    assert media.dvpp_destroy_channel(desc) == 107000
    assert media.dvpp_get_channel_desc_channel_id(channel()) == number


def test_dropped_tasks_do_not_keep_a_channel_busy() -> None:
    desc, stream = channel(), ok(acl.rt.create_stream())
    with Hold(stream):
        ok(resize(desc, stream))
        ok(acl.rt.destroy_stream_force(stream))
    ok(media.dvpp_destroy_channel(desc))


def test_a_channel_goes_with_its_device() -> None:
    desc = channel()
    ok(acl.rt.reset_device(0))
    ok(acl.rt.set_device(0))
    assert resize(desc) == 100000
    assert media.dvpp_destroy_channel(desc) == 100000
    ok(media.dvpp_create_channel(desc))
    ok(resize(desc))


def test_a_channel_is_gone_after_finalize() -> None:
    desc = channel()
    ok(acl.finalize())
    assert media.dvpp_destroy_channel(desc) == 100000
    assert media.dvpp_create_channel(desc) == 100001
    ok(media.dvpp_destroy_channel_desc(desc))
