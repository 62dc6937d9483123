"""acl.media: media memory."""

from __future__ import annotations

import pytest

import acl
from tests.support import in_thread, message, ok

pytestmark = pytest.mark.usefixtures("runtime")
CONFIG = {"attrs": [{"attr": 1, "value": {"moduleId": 3}}], "numAttrs": 1}


def test_memory_is_aligned_has_room_to_spare_and_can_be_copied() -> None:
    ptr = ok(acl.media.dvpp_malloc(1000))
    assert ptr % 128 == 0
    ok(acl.rt.memset(ptr, 1024 + 32, 7, 1024 + 32))  # rounded up to 32, and 32 more
    assert acl.rt.memset(ptr, 1057, 7, 1057) == 107000
    assert acl.util.ptr_to_bytes(ptr, 1000) == b"\7" * 1000
    ok(acl.media.dvpp_free(ptr))


def test_it_counts_as_device_memory() -> None:
    before = ok(acl.rt.get_mem_info(12))[0]
    ptr = ok(acl.media.dvpp_malloc(64 << 20))
    assert before - ok(acl.rt.get_mem_info(12))[0] >= 64 << 20
    assert ok(acl.rt.pointer_get_attributes(ptr))["location"]["type"] == 1
    ok(acl.media.dvpp_free(ptr))
    assert ok(acl.rt.get_mem_info(12))[0] == before


@pytest.mark.parametrize("config", [{}, CONFIG, {"attrs": [{"attr": 0, "value": {"rsv": [0] * 8}}], "numAttrs": 1}])
def test_memory_with_attributes(config: dict[str, object]) -> None:
    ok(acl.media.dvpp_free(ok(acl.media.dvpp_malloc_with_cfg(100, 0, config))))


def test_attributes_that_make_no_sense() -> None:
    assert acl.media.dvpp_malloc_with_cfg(100, 0, {**CONFIG, "numAttrs": 2}) == (0, 100000)
    assert acl.media.dvpp_malloc_with_cfg(100, 0, {"attrs": [{"attr": 9, "value": {}}], "numAttrs": 1}) == (0, 100000)
    with pytest.raises(ValueError, match="cfg must be"):
        acl.media.dvpp_malloc_with_cfg(100, 0, {"attrs": 5, "numAttrs": 1})
    assert acl.media.dvpp_malloc_with_cfg(100, 77, {})[1] == 107018


def test_what_cannot_be_had() -> None:
    assert acl.media.dvpp_malloc(0) == (0, 100000)
    ptr, code = acl.media.dvpp_malloc(1 << 50)
    assert ptr == 0 and code == 207001
    assert in_thread(lambda: acl.media.dvpp_malloc(100)) == (0, 107002)


def test_each_kind_of_memory_has_its_own_free() -> None:
    media, plain = ok(acl.media.dvpp_malloc(100)), ok(acl.rt.malloc(100, 0))
    assert acl.rt.free(media) == 107000
    assert "dvpp_free" in message()
    assert acl.media.dvpp_free(plain) == 107000
    assert "acl.rt.free" in message()
    ok(acl.media.dvpp_free(media))
    ok(acl.rt.free(plain))


def test_frees_that_are_refused() -> None:
    ptr = ok(acl.media.dvpp_malloc(100))
    assert acl.media.dvpp_free(0) == 100000
    assert acl.media.dvpp_free(ptr + 32) == 107000
    ok(acl.media.dvpp_free(ptr))
    assert acl.media.dvpp_free(ptr) == 107000
    assert "freed already" in message()
    assert acl.media.dvpp_free(0xDEADBEEF) == 107000
    assert acl.media.dvpp_free(acl.media.dvpp_create_pic_desc()) == 107000


def test_media_memory_is_refused_after_finalize() -> None:
    ptr = ok(acl.media.dvpp_malloc(100))
    ok(acl.finalize())
    assert acl.media.dvpp_malloc(100) == (0, 100001)
    assert acl.media.dvpp_free(ptr) == 100001


@pytest.mark.parametrize("arguments", [(), ("a",), (1, 2), (None,)])
def test_arguments_of_the_wrong_kind(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match=r"acl\.media\.dvpp_malloc args parse failed"):
        acl.media.dvpp_malloc(*arguments)
