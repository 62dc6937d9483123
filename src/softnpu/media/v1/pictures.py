"""VPC tasks of `acl.media`: cutting, scaling, pasting, framing, colours, histograms.

Every call is checked when it is made. A task has copies of what the descriptions said, and looks up the memory again when it runs:
the program may have freed it since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softnpu.base.errors import NpuError, codes
from softnpu.media import rules
from softnpu.media.pixels import csc as matrices
from softnpu.media.pixels.formats import NV12, NV21, YUV_400, pixel_format
from softnpu.media.pixels.picture import Picture, Pixels, Region
from softnpu.media.pixels.scale import INTERPOLATIONS
from softnpu.media.v1.channel import ChannelDesc, submit
from softnpu.media.v1.descs import BorderConfig, PicDesc, ResizeConfig, RoiConfig
from softnpu.media.v1.tables import DIMS, Hist, LutMap
from softnpu.media.vpc import compose, histogram, pyramid
from softnpu.runtime.memory.atlas import Allocation
from softnpu.runtime.memory.kinds import COUNTED_KINDS
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Stream

_HIGH_ORDER = 5
_OLD_CHIPS = frozenset({"310", "910"})
_LIKE_OPENCV = frozenset({"310B", "910B", "A3"})  # whose TensorFlow kinds are the plain ones


def interpolation_of(number: int) -> str:
    """What a number means on the simulated chip."""
    family = rules.family()
    if number == 0:
        return "high_order" if family in _OLD_CHIPS else "bilinear"
    return INTERPOLATIONS[number - 1 - (2 if number in (3, 4) and family in _LIKE_OPENCV else 0)]


@dataclass
class Move:
    """A region of one picture that goes into a region of another, scaled and converted where they differ."""

    source: Picture
    target: Picture
    result: PicDesc
    crop: Region | None = None
    paste: Region | None = None
    border: BorderConfig | None = None
    _seen: tuple[Pixels, Pixels] | None = None
    _homes: Sequence[Allocation | None] = ()

    def check(self, interpolation: int) -> int:
        """Raise what is wrong with it now; returns how much work it is."""
        source, target = self.pixels()
        if self.crop is not None:
            self.crop.check_inside(self.source.width, self.source.height, "crop region")
        if self.border is not None:
            self.paste = self.border.inner(self.target.width, self.target.height)
        elif self.paste is not None:
            self.paste.check_inside(self.target.width, self.target.height, "paste region")
        region = self.crop or Region(0, 0, self.source.width, self.source.height)
        area = self.paste or Region(0, 0, self.target.width, self.target.height)
        rules.check(
            "vpc",
            "in",
            self.source,
            region=region,
            target=(area.width, area.height),
            interpolation=interpolation,
            resize=self.crop is None and self.paste is None,
        )
        rules.check(
            "vpc",
            "out",
            self.target,
            paste=None if self.border else self.paste,
            resize=self.crop is None and self.paste is None,
        )
        if interpolation == _HIGH_ORDER:
            takes = source.format.space == "yuv" and target.format.value in (NV12, NV21)
            text = f"interpolation {_HIGH_ORDER} makes NV12 or NV21 of YUV, not {target.format.name} of {source.format.name}"
            rules.insist(takes, text)
        return compose.cost(_cut(source, self.crop), _cut(target, self.paste))

    def run(self, interpolation: str, csc: int) -> None:
        """Do it."""
        source, target = self.pixels()
        matrix = matrices.matrix(csc)
        inner = _cut(target, self.paste)
        compose.transfer(_cut(source, self.crop), inner, interpolation, matrix)
        if self.border is not None and self.paste is not None:
            is_rgb = source.format.space == "rgb"  # then its colour is one, too
            region = Region(self.paste.left, self.paste.top, inner.width, inner.height)
            kind, colour = self.border.border_type, self.border.values
            compose.make_border(target, region, kind, colour, matrix if is_rgb else None)

    def pixels(self) -> tuple[Pixels, Pixels]:
        """Both pictures over their memory as it is now; looked up again unless nobody can have taken it away."""
        if self._seen is not None and all(home is not None and home.live for home in self._homes):
            return self._seen
        memory = process().memory
        source = self.source.pixels(memory, False, "input picture")
        self._seen = source, self.target.pixels(memory, True, "output picture")
        homes = [memory.atlas.find(picture.address) for picture in (self.source, self.target)]
        self._homes = [home if home is not None and home.kind in COUNTED_KINDS else None for home in homes]
        return self._seen


def _cut(pixels: Pixels, region: Region | None) -> Pixels:
    """A region of a picture; what a picture with an odd side has no chroma for is left out."""
    if region is None:
        return pixels
    left, top = min(region.left, pixels.width - 1), min(region.top, pixels.height - 1)
    return pixels.crop(left, top, min(region.width, pixels.width - left), min(region.height, pixels.height - top))


def _send(channel: ChannelDesc, stream: Stream, name: str, results: Sequence[PicDesc | Hist], work: Callable[[], object], cost: int) -> None:  # fmt: skip
    """Queue a task that leaves its outcome in the result codes."""
    opened = channel.need("vpc", stream.context.device)

    def run() -> None:
        for result in results:
            result.ret_code = 1
        work()
        for result in results:
            result.ret_code = 0

    submit(opened, stream, name, run, inline=cost <= compose.INLINE_PIXELS)


def move(channel: ChannelDesc, stream: Stream, name: str, moves: Sequence[Move], config: ResizeConfig | None) -> None:
    """Queue moves, one after the other: where two write to the same place the later one wins."""
    channel.need("vpc", stream.context.device)
    number = config.interpolation if config is not None else 0
    cost = sum(step.check(number) for step in moves)
    interpolation, csc = interpolation_of(number), channel.csc

    def work() -> None:
        for step in moves:
            step.run(interpolation, csc)

    _send(channel, stream, name, [step.result for step in moves], work, cost)


def move_one(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, target: PicDesc, crop: RoiConfig | None, paste: RoiConfig | None, config: ResizeConfig | None) -> None:  # fmt: skip
    """Queue a single move."""
    step = Move(source.picture(), target.picture(), target, _region(crop), _region(paste))
    move(channel, stream, name, [step], config)


def _region(config: RoiConfig | None) -> Region | None:
    return config.region() if config is not None else None


def batch_moves(
    sources: list[PicDesc],
    counts: list[int],
    targets: list[PicDesc],
    crops: list[RoiConfig],
    pastes: list[RoiConfig] | None = None,
    borders: list[BorderConfig] | None = None,
) -> list[Move]:
    """The moves of a batch: `counts[i]` regions come from source i, and each has a target of its own."""
    _agree(len(counts), len(sources), "roi_nums", "the pictures of the input batch")
    _agree(sum(counts), len(crops), "the sum of roi_nums", "the crop regions")
    _agree(len(targets), len(crops), "the output batch", "the crop regions")
    if pastes is not None:
        _agree(len(pastes), len(crops), "the paste regions", "the crop regions")
    if borders is not None:
        _agree(len(borders), len(crops), "the borders", "the crop regions")
    origins = [source for source, count in zip(sources, counts, strict=True) for _ in range(count)]
    return [
        Move(
            origins[index].picture(),
            target.picture(),
            target,
            crops[index].region(),
            pastes[index].region() if pastes is not None else None,
            borders[index].copy() if borders is not None else None,
        )
        for index, target in enumerate(targets)
    ]


def _agree(count: int, expected: int, what: str, with_what: str) -> None:
    if count != expected:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{what}: {count}, {with_what}: {expected}",
            "roi_nums has an entry for each input picture, and each region has its own output picture",
        )


def convert_color(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, target: PicDesc) -> None:
    """Queue a change of the format alone."""
    if (source.width, source.height) != (target.width, target.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the input is {source.width}x{source.height}, the output {target.width}x{target.height}",
            "give both the same size, or use dvpp_vpc_resize_async",
        )
    move_one(channel, stream, name, source, target, None, None, None)


def make_border(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, target: PicDesc, border: BorderConfig) -> None:  # fmt: skip
    """Queue putting a frame around a picture."""
    inner = border.inner(target.width, target.height)
    if (inner.width, inner.height) != (source.width, source.height):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the border leaves {inner.width}x{inner.height} of the output, the input is {source.width}x{source.height}",
            "the output is as wide and high as the input and its borders together",
        )
    rules.check_border(border.border_type, border.top, border.bottom, border.left, border.right)
    step = Move(source.picture(), target.picture(), target, border=border.copy())
    move(channel, stream, name, [step], None)


def _need_bytes(picture: Picture) -> None:
    form = pixel_format(picture.format)
    if not form.is_8bit:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{form.name} has values of the type {form.type}",
            "histograms and tables are for pictures of bytes",
        )


def calc_hist(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, hist: Hist) -> None:
    """Queue counting the values of a picture."""
    picture = source.picture()
    _need_bytes(picture)
    rules.check("vpc", "in", picture)

    def pixels() -> Pixels:
        return picture.pixels(process().memory, False, "input picture")

    def work() -> None:
        hist.store(histogram.histogram(pixels()))

    _send(channel, stream, name, [hist], work, compose.cost(pixels()))


def equalize_hist(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, target: PicDesc, lut: LutMap) -> None:  # fmt: skip
    """Queue putting every value through the table; what the program wrote into it until the task runs counts."""
    step = Move(source.picture(), target.picture(), target)
    if (source.width, source.height, source.format) != (target.width, target.height, target.format):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the input is {source.width}x{source.height} of format {source.format}, the output {target.width}x{target.height} of format {target.format}",
            "give both the same size and format",
        )
    _need_bytes(step.source)
    cost = step.check(0)

    def work() -> None:
        before, after = step.pixels()
        histogram.equalize(before, after, lut.view())

    _send(channel, stream, name, [target], work, cost * DIMS)


def pyr_down(channel: ChannelDesc, stream: Stream, name: str, source: PicDesc, target: PicDesc) -> None:
    """Queue one step down a pyramid: a Gaussian, and every second pixel of every second row."""
    if source.format != YUV_400 or target.format != YUV_400:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the formats are {source.format} and {target.format}",
            "a pyramid is made of YUV 400 pictures (format 0)",
        )
    halves = {(source.width // 2, source.height // 2), ((source.width + 1) // 2, (source.height + 1) // 2)}
    if (target.width, target.height) not in halves:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the input is {source.width}x{source.height}, the output {target.width}x{target.height}",
            "make the output half as wide and high",
        )
    pyramid.limits(source.width, source.height, levels=1, divisor=1)
    step = Move(source.picture(), target.picture(), target)
    cost = step.check(0)

    def work() -> None:
        before, after = step.pixels()
        whole = before.crop(0, 0, min(before.width, 2 * after.width), min(before.height, 2 * after.height))
        pyramid.pyrdown(whole, [after])

    _send(channel, stream, name, [target], work, cost)
