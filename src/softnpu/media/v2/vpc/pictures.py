"""What every call of picture processing does: check its pictures at once, then start the work on the channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from softnpu.media import rules
from softnpu.media.pixels.picture import Picture, Pixels, Region
from softnpu.media.pixels.scale import INTERPOLATIONS
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import picture
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.media.vpc import compose
from softnpu.runtime.process import process

BORDERS = 5


def illegal(text: str, remedy: str = "") -> Exception:
    """ILLEGAL_PARAM of the picture engine."""
    return himpi_error("vpc", "ILLEGAL_PARAM", text, remedy)


def source(info: Fields, function: str) -> Pixels:
    """The pixels of an input picture."""
    return pixels(picture(info), "in", function)


def target(info: Fields, function: str) -> Pixels:
    """The pixels of an output picture."""
    return pixels(picture(info), "out", function)


def pixels(described: Picture, role: str, function: str) -> Pixels:
    """The pixels of a picture, after the checks of the chip and of memory."""
    label = "source picture" if role == "in" else "destination picture"
    if described.address == 0:
        raise himpi_error("vpc", "NULL_PTR", f"the {label} has no memory (picture_address 0)", "use dvpp_malloc")
    rules.check("vpc", role, described, resize=function == "vpc_resize", version=2)
    return described.pixels(process().memory, role == "out", label)


def like_source(info: Fields, src: Pixels, function: str) -> Pixels:
    """An output of the source's size; width and height 0 mean just that, with the smallest strides."""
    described = picture(info)
    if described.width == 0 and described.height == 0:
        described = replace(described, width=src.width, height=src.height).with_strides()
    out = pixels(described, "out", function)
    same_size(src, out)
    return out


def same_size(src: Pixels, out: Pixels) -> None:
    """Raise unless both pictures have the same sides."""
    if (src.width, src.height) != (out.width, out.height):
        raise illegal(
            f"the destination is {out.width}x{out.height}, the source {src.width}x{src.height}",
            "this call does not scale: give both the same size",
        )


def same_format(src: Pixels, out: Pixels) -> None:
    """Raise unless both pictures have the same format."""
    if src.format is not out.format:
        raise illegal(
            f"the destination is {out.format.name}, the source {src.format.name}",
            "this call does not convert: give both the same format, or use vpc_convert_color before",
        )


def cut(src: Pixels, region: Fields, width: int, height: int) -> Pixels:
    """The crop region of a source, which is to be scaled to this size."""
    where = Region(region.left_offset, region.top_offset, region.crop_width, region.crop_height)
    where.check_inside(src.width, src.height, "crop region")
    rules.check("vpc", "in", None, region=where, target=(width, height), version=2)
    return src.crop(where.left, where.top, where.width, where.height)


def check_border(kind: int) -> None:
    """Raise unless it is a border type."""
    if not 0 <= kind < BORDERS:
        raise illegal(f"border type {kind} is not known", "use a value of hi_vpc_bord_type, 0 to 4")


def interpolation(number: int) -> str:
    """The name of an interpolation."""
    if not 0 <= number < len(INTERPOLATIONS):
        raise illegal(f"interpolation {number} is not known", "0 is bilinear, 1 is nearest")
    known = rules.row("vpc")["interpolations"]  # by the numbers of acl.media, which are one more
    if number + 1 not in known:
        rules.insist(False, f"interpolation {number} is not among {[other - 1 for other in known if other]}")
    return INTERPOLATIONS[number]


def start(channel: VpcChannel, timeout_ms: int, work: Callable[[], object], *touched: Pixels) -> int:
    """Start the work of a call; its task id. What is quickly done is done here when nothing is before it."""
    return channel.submit(work, timeout_ms, compose.cost(*touched) <= compose.INLINE_PIXELS)


def in_turn(works: list[Callable[[], object]]) -> Callable[[], None]:
    """Several pieces of work as one: later ones win where they write to the same place."""

    def run() -> None:
        for work in works:
            work()

    return run
