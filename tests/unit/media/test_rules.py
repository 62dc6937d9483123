"""Rules of the chips: strict mode refuses with words, lenient mode notes them once."""

from __future__ import annotations

from typing import Any

import pytest

from softnpu.base.errors import NpuError
from softnpu.media import rules
from softnpu.media.pixels.picture import Picture, Region
from softnpu.runtime.process import process

NV12, RGB = 1, 12
FAMILIES = ("310", "910", "310P", "310B", "910B", "A3")


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(family: str, strict: bool = True) -> None:
        monkeypatch.setattr(rules, "family", lambda: family)
        monkeypatch.setattr(process().memory.addresses, "strict", strict)

    return use


def picture(width: int, height: int, width_stride: int, height_stride: int, form: int = NV12) -> Picture:
    return Picture(0, 1 << 30, width, height, width_stride, height_stride, form)


def refused(*args: Any, **facts: Any) -> str:
    with pytest.raises(NpuError) as caught:
        rules.check(*args, **facts)
    assert caught.value.code == 100000
    return str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_picture_is_taken_everywhere(chip: Any, family: str) -> None:
    chip(family)
    rules.check("vpc", "in", picture(1920, 1080, 1920, 1080), region=Region(0, 0, 960, 540), target=(224, 224))
    rules.check("vpc", "out", picture(224, 224, 224, 224))
    rules.check("jpegd", "out", picture(1920, 1080, 1920, 1088))
    rules.check("vdec", "out", picture(1920, 1080, 1920, 1080), stream=(1920, 1080))


@pytest.mark.parametrize(
    ("family", "shape", "reason"),
    [
        ("310", (100, 100, 100, 100), "multiple of 16"),
        ("310P", (100, 100, 100, 100), "multiple of 16"),
        ("310", (5000, 100, 5008, 100, RGB), "outside"),
        ("910", (8, 6, 32, 6), "outside"),
        ("910B", (100, 99, 100, 99), "even"),
        ("910B", (100, 99, 100, 99), "multiple of 2"),
        ("310P", (5000, 100, 15024, 100, RGB), "above 4096"),
        ("310", (9000, 100, 9008, 100), "outside"),
    ],
)
def test_what_a_chip_refuses_as_input(chip: Any, family: str, shape: tuple[int, ...], reason: str) -> None:
    chip(family)
    assert reason in refused("vpc", "in", picture(*shape))


def test_the_newer_chips_take_tight_strides(chip: Any) -> None:
    chip("910B")
    rules.check("vpc", "in", picture(100, 100, 100, 100))
    rules.check("vpc", "out", picture(33, 17, 99, 17, RGB))
    chip("310")
    assert "format RGB_888" in refused("vpc", "out", picture(32, 18, 96, 18, RGB))


def test_large_nv12_on_the_first_chip(chip: Any) -> None:
    chip("310")
    rules.check("vpc", "in", picture(8192, 8192, 8192, 8192))
    assert "outside" in refused("vpc", "in", picture(8192, 8192, 8192, 8192, 0))


def test_regions_and_scaling(chip: Any) -> None:
    whole = picture(1920, 1080, 1920, 1080)
    chip("310")
    assert "start even" in refused("vpc", "in", whole, region=Region(1, 0, 100, 100))
    assert "smaller than 10x6" in refused("vpc", "in", whole, region=Region(0, 0, 8, 8))
    assert "from 64 to 2048" in refused("vpc", "in", whole, region=Region(0, 0, 64, 64), target=(2048, 64))
    assert "column 8" in refused("vpc", "out", whole, paste=Region(8, 0, 64, 64))
    chip("910B")
    rules.check("vpc", "in", whole, region=Region(1, 3, 101, 99), target=(2048, 64), version=2)
    assert "1/32 to 16" in refused("vpc", "in", whole, region=Region(1, 3, 101, 99), target=(2048, 64))
    rules.check("vpc", "out", whole, paste=Region(8, 0, 64, 64))


def test_what_is_insisted_on(chip: Any) -> None:
    chip("310P")
    rules.insist(True, "never said")
    with pytest.raises(NpuError, match="refuses this: too blue") as caught:
        rules.insist(False, "too blue", 200001)
    assert caught.value.code == 200001


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("rows", "fits"), [(100, True), (112, True), (101, False), (128, False)])
def test_rows_of_a_picture_for_jpege(chip: Any, family: str, rows: int, fits: bool) -> None:
    chip(family)
    if fits:
        rules.check("jpege", "in", picture(128, 100, 128, rows))
    else:
        assert "neither its height 100" in refused("jpege", "in", picture(128, 100, 128, rows))


def test_engines_and_functions(chip: Any) -> None:
    chip("910B")
    with pytest.raises(NpuError, match="no VENC in acl") as caught:
        rules.supports("venc", 2)
    assert caught.value.code == 200001
    chip("310")
    with pytest.raises(NpuError, match="no VPC in acl"):
        rules.supports("vpc", 2)
    with pytest.raises(NpuError, match="dvpp_vpc_convert_color_async"):
        rules.supports_function("dvpp_vpc_convert_color_async")
    rules.supports("venc", 1)


def test_lenient_mode_notes_it_once(chip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chip("310", strict=False)
    lines: list[str] = []
    monkeypatch.setattr(
        rules, "log", lambda: type("Log", (), {"write": lambda self, level, text, *a: lines.append(text)})()
    )
    rules._note.cache_clear()
    for _ in range(3):
        rules.check("vpc", "in", picture(100, 100, 100, 100))
    assert len(lines) == 1 and "would refuse this" in lines[0] and "100" in lines[0]


def test_memory_that_an_engine_cannot_reach(chip: Any, runtime: None) -> None:
    memory = process().memory
    device = process().devices[0]
    own, other, host = (
        memory.allocate(device, 64, 0, "media", align=128),
        memory.allocate(device, 64, 0),
        memory.allocate_host(64),
    )
    chip("310P")
    rules.check_memory("vpc", "in", own)
    rules.check_memory("vdec", "in", other)
    rules.check_memory("venc", "in", other)
    for engine, address, version, reason in (
        ("vpc", other, 1, "acl.rt.malloc"),
        ("vpc", other, 2, "acl.rt.malloc"),
        ("jpegd", host, 1, "host memory"),
        ("vdec", own + 8, 1, "multiple of 16"),
    ):
        with pytest.raises(NpuError, match=reason):
            rules.check_memory(engine, "in", address, version)
    chip("910B")
    rules.check_memory("vpc", "in", other, 2)
    chip("910B", strict=False)
    rules.check_memory("vpc", "in", host, 1)
    memory.free(own, ("media",), "media")
    memory.free(other, ("device",), "device")
    memory.free(host, ("host",), "host")
