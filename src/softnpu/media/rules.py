"""What a chip's media engines accept. Strict mode refuses what the chip refuses; otherwise a broken rule is logged once.

The rules are rows (`spec/media_chips.toml`). What would be unsafe is checked elsewhere and always; this is about programs that
run here and would fail on the board.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log
from softnpu.base.units import align_up
from softnpu.media.pixels.formats import is_known, pixel_format
from softnpu.media.pixels.picture import Picture, Region
from softnpu.runtime.process import process
from softnpu.spec._generated.media_chips import CHIPS

_WORDS = {"vpc": "VPC", "jpegd": "JPEGD", "jpege": "JPEGE", "pngd": "PNGD", "vdec": "VDEC", "venc": "VENC"}
_REMEDY = "SOFTNPU_CHECK without `strict` allows it here; the chip does not"
WIDE = 4096
_REFLECTED = (2, 3)
_YUV440 = (1000, 1001)


class _Call(NamedTuple):
    """The facts of a call that rules speak of, as plain numbers: the answer is remembered by them."""

    engine: str
    role: str
    chip: str
    shape: tuple[int, int, int, int, int] | None  # width, height, their strides, pixel format
    region: tuple[int, int, int, int] | None  # left, top, width, height
    paste: tuple[int, int, int, int] | None
    target: tuple[int, int] | None
    interpolation: int | None
    stream: tuple[int, int] | None
    resize: bool
    version: int


def family() -> str:
    """The chip family of the devices, as the rows call it: 310, 910, 310P, 310B, 910B, A3."""
    return str(process().devices[0].info.soc.family)


def strict() -> bool:
    """Whether the rules of the chip are errors."""
    return process().memory.strict


def row(engine: str, chip: str | None = None) -> dict[str, Any]:
    """The limits of an engine; those of the most capable chip where this one has no such engine."""
    limits: dict[str, Any] = CHIPS[chip or family()].get(engine) or CHIPS["310B"][engine]
    return limits


def row_alignment(engine: str) -> tuple[int, int]:
    """How the engine lays rows: a multiple of so many pixels, and at least so many bytes."""
    limits = row(engine)
    return limits.get("width_align", 1), limits.get("stride", (0,))[0]


def channel_ids(kind: str) -> int:
    """How many channels there are: ids of `vpc`, `vdec`, `venc`, `pngd` of acl.himpi and `vdec_v1` of acl.media, `video` of those of `vdec` that decode video."""
    return int(CHIPS[family()]["ids"].get(kind, 128))


def supports(engine: str, version: int) -> None:
    """Refuse (strict) or note that the chip has no such engine in this version of the interface."""
    if engine not in CHIPS[family()][f"v{version}"]:
        face = "acl.media" if version == 1 else "acl.himpi"
        _tell(codes.API_NOT_SUPPORT, (f"it has no {_WORDS[engine]} in {face}",))


def supports_function(name: str) -> None:
    """The same for a single function."""
    if name in CHIPS[family()]["missing"]:
        _tell(codes.API_NOT_SUPPORT, (f"it does not support {name}",))


def insist(holds: bool, text: str, code: int = codes.INVALID_PARAM) -> None:
    """Refuse (strict) or note what the chip does not take, unless `holds`."""
    if not holds:
        _tell(code, (text,))


def check_size(engine: str, width: int, height: int, subject: str) -> None:
    """The sides that an engine takes, where there is no picture yet."""
    for text in _within(_sizes(row(engine), "in"), width, height, subject):
        insist(False, text)


def check_codec(engine: str, codec: str, width: int, height: int) -> None:
    """What holds for one codec only (`h264`, `hevc`): the sizes of its video, and its pixels."""
    limits = row(engine)
    for text in _within(limits.get(f"{codec}_size", (0, 0, width, height)), width, height, f"the {codec} video"):
        insist(False, text)
    most = limits.get(f"{codec}_area", width * height)
    insist(width * height <= most, f"the {codec} video is {width}x{height}, more than {most} pixels")


def check_border(kind: int, *sides: int) -> None:
    """A frame around a picture: its kind (0 constant, 1 replicate, 2 reflect, 3 reflect-101, 4 wrap), and how wide its sides are."""
    limits = row("vpc")
    kinds, most = limits.get("borders", (kind,)), limits.get("reflected", max(sides))
    insist(kind in kinds, f"border type {kind} is not among {kinds}")
    if kind in _REFLECTED:
        insist(max(sides) <= most, f"a reflected border of {max(sides)} pixels is wider than {most}")


def check_wide_resize(size: tuple[int, int], target: tuple[int, int]) -> None:
    """What a chip that scales pictures wider than `WIDE` asks of them."""
    limits = row("vpc")
    beyond, width, height = limits.get("resize_wide_output", (target[0], 0, 0))
    fits = target[0] <= beyond or (size[0] >= width and size[1] >= height)
    insist(fits, f"an output wider than {beyond} wants an input of {width}x{height} or more, it is {size[0]}x{size[1]}")
    beyond, height = limits.get("resize_wide_input", (size[0], 0))
    fits = size[0] <= beyond or size[1] >= height
    insist(fits, f"an input wider than {beyond} must be {height} rows high or more, it is {size[0]}x{size[1]}")


def check(
    engine: str,
    role: str,
    picture: Picture | None = None,
    *,
    region: Region | None = None,
    paste: Region | None = None,
    target: tuple[int, int] | None = None,
    interpolation: int | None = None,
    stream: tuple[int, int] | None = None,
    resize: bool = False,
    version: int = 1,
) -> None:
    """Refuse (strict) or note what the chip does not take.

    `region` is cut out of the picture and scaled to `target`, `paste` is where something is put into it, `stream` the size of a
    video; `resize` marks the one call that some chips allow larger pictures for.
    """
    shape = None if picture is None else (picture.width, picture.height, picture.width_stride, picture.height_stride, picture.format)  # fmt: skip
    frame, spot = _corners(region), _corners(paste)
    # the fields of _Call; a plain tuple is found in the cache at half the cost, and most calls are
    broken = _broken((engine, role, family(), shape, frame, spot, target, interpolation, stream, resize, version))
    if broken:
        _tell(codes.INVALID_PARAM, broken)
    if picture is not None and picture.address and strict():
        check_memory(engine, role, picture.address, version)


def check_memory(engine: str, role: str, address: int, version: int = 1, align: int = 0) -> None:
    """In strict mode, refuse memory that the engine cannot reach, or an address that it cannot start at."""
    if not strict():
        return
    allocation = process().memory.atlas.find(address)
    subject = {"in": "the input", "out": "the output"}[role]
    if allocation is None or allocation.device is None:
        _tell(codes.INVALID_PARAM, (f"{subject} is host memory; use dvpp_malloc",))
    elif allocation.kind == "device" and not _takes_device_memory(engine, role, version):
        _tell(codes.INVALID_PARAM, (f"{subject} is memory from acl.rt.malloc; {_WORDS[engine]} needs dvpp_malloc",))
    unit = align or row(engine).get("address_align", 1)
    if address % unit:
        _tell(codes.INVALID_PARAM, (f"{subject} starts at {address:#x}, no multiple of {unit}",))


def _takes_device_memory(engine: str, role: str, version: int) -> bool:
    if version == 2 and family() in ("310B", "910B", "A3"):
        return True
    return role == "in" and (engine == "vdec" or (engine == "venc" and family() == "310P"))


def _corners(region: Region | None) -> tuple[int, int, int, int] | None:
    return None if region is None else (region.left, region.top, region.width, region.height)


def _tell(code: int, broken: tuple[str, ...]) -> None:
    name = process().devices[0].info.soc.name
    if strict():
        raise NpuError(code, f"{name} refuses this: {'; '.join(broken)}", _REMEDY)
    _note(name, broken)


@functools.lru_cache(maxsize=1024)  # a set of what was said already: the same words are logged once
def _note(name: str, broken: tuple[str, ...]) -> None:
    """Log what the chip would refuse, once for each chip and reason."""
    log().write(WARNING, f"{name} would refuse this: {'; '.join(broken)}", "DVPP", "check")


@functools.lru_cache(maxsize=4096)
def _broken(facts: tuple[Any, ...]) -> tuple[str, ...]:
    """The rules that a call breaks, a sentence each."""
    call = _Call(*facts)
    limits, shape, region, paste = row(call.engine, call.chip), call.shape, call.region, call.paste
    broken: list[str] = []
    if shape is not None:
        broken += _picture(call.role, limits, shape, call.resize)
    if region is not None:
        broken += _region(limits, region, shape)
    if paste is not None and paste[0] % limits.get("paste_left", 1):
        broken.append(f"the paste region starts at column {paste[0]}, no multiple of {limits['paste_left']}")
    if paste is not None and limits.get("crop_parity") and (paste[1] % 2 or paste[2] % 2 or paste[3] % 2):
        broken.append(f"the paste region {paste[2]}x{paste[3]} at row {paste[1]} must start even and end odd")
    if region is not None and call.target is not None and "scale" in limits:
        scale = limits["scale_v1" if call.version == 1 and "scale_v1" in limits else "scale"]
        broken += _scaling(scale, region[2:], call.target)
    interpolation = call.interpolation
    if interpolation is not None and interpolation not in limits.get("interpolations", (interpolation,)):
        broken.append(f"interpolation {interpolation} is not among {limits['interpolations']}")
    if call.stream is not None:
        broken += _within(limits["stream"], call.stream[0], call.stream[1], "the video")
    return tuple(broken)


def _picture(role: str, limits: dict[str, Any], shape: Any, resize: bool) -> Iterator[str]:
    width, height, width_stride, height_stride, value = shape
    subject = {"in": "the input", "out": "the output"}[role]
    if not is_known(value):
        return
    form = pixel_format(value)
    allowed = limits.get("formats") or limits.get({"in": "input_formats", "out": "output_formats"}[role])
    if allowed is not None and value not in allowed:
        yield f"{subject} has the format {form.name} ({value}), not one of {allowed}"
    if not limits.get("rounds_odd") and (("w" in form.even and width % 2) or ("h" in form.even and height % 2)):
        yield f"{subject} is {width}x{height}, {form.name} wants even sides"
    size: list[int] = limits["resize"] if resize and "resize" in limits else _sizes(limits, role)
    if role == "in" and value in limits.get("input_large_formats", ()):
        size = [*size[:2], *limits["input_large"]]
    yield from _within(size, width, height, subject)
    if role == "in" and value in _YUV440 and width > WIDE:
        yield f"{subject} is {width} wide; {form.name} may have {WIDE}"
    wide = limits.get("wide_formats")
    if role == "in" and wide and max(width, height) > WIDE and value not in wide:
        yield f"{subject} is {width}x{height}; above {WIDE} {form.name} is not taken"
    yield from _strides(limits, form, subject, width_stride, height_stride)
    unit, least = limits.get("height_or", (1, 0))
    if unit > 1 and height_stride not in (0, height, max(least, align_up(height, unit))):
        yield f"the height stride {height_stride} of {subject} is neither its height {height} nor that aligned to {unit} (at least {least})"


def _sizes(limits: dict[str, Any], role: str) -> list[int]:
    size: list[int] = limits.get("size") or limits.get("picture") or limits[{"in": "input", "out": "output"}[role]]
    return size


def _strides(limits: dict[str, Any], form: Any, subject: str, width_stride: int, height_stride: int) -> Iterator[str]:
    unit = limits.get("width_align", 1) * (form.pixel_bytes if not form.packed else 2)
    if width_stride % unit:
        yield f"the width stride {width_stride} of {subject} is no multiple of {unit}"
    rows = max(limits.get("height_align", 1), 2 if "h" in form.even else 1)
    if height_stride % rows:
        yield f"the height stride {height_stride} of {subject} is no multiple of {rows}"
    low, high = limits.get("stride", (0, width_stride))
    if width_stride and not low <= width_stride <= high:
        yield f"the width stride {width_stride} of {subject} is outside {low} to {high}"
    low, high = limits.get("rows", (0, height_stride))
    if height_stride and not low <= height_stride <= high:
        yield f"the height stride {height_stride} of {subject} is outside {low} to {high}"


def _within(size: Sequence[int], width: int, height: int, subject: str) -> Iterator[str]:
    least_width, least_height, most_width, most_height = size
    if not (least_width <= width <= most_width and least_height <= height <= most_height):
        yield f"{subject} is {width}x{height}, outside {least_width}x{least_height} to {most_width}x{most_height}"


def _region(limits: dict[str, Any], region: tuple[int, int, int, int], shape: Any) -> Iterator[str]:
    left, top, width, height = region
    least_width, least_height = limits.get("region", (1, 1))
    if width < least_width or height < least_height:
        yield f"the region is {width}x{height}, smaller than {least_width}x{least_height}"
    whole = shape is not None and region == (0, 0, *shape[:2])
    if limits.get("crop_parity") and not whole and (left % 2 or top % 2 or width % 2 or height % 2):
        yield f"the region {width}x{height} at ({left}, {top}) must start even and end odd"


def _scaling(limits: list[int], size: tuple[int, int], target: tuple[int, int]) -> Iterator[str]:
    shrink, grow = limits
    for before, after, side in zip(size, target, ("width", "height"), strict=True):
        if after * shrink < before or after > before * grow:
            yield f"the {side} goes from {before} to {after}; only 1/{shrink} to {grow} times is possible"
