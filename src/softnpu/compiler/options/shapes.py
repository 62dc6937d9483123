"""Input shapes on the command line: fixed shapes, shape ranges and gears.

Nothing here knows the model; `interface/shapes.py` compares with it and puts the shapes on its inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from softnpu.compiler.messages import error

Range = tuple[int, int]
MAX_GEARS = 100
GEAR_OPTIONS = ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
_KINDS = dict(zip(GEAR_OPTIONS, ("batch", "hw", "dims"), strict=True))
_MAX = (1 << 63) - 1
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_SPAN = re.compile(r"(-?[0-9]+)~(-?[0-9]+)", re.ASCII)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ANY: Range = (1, -1)
IMAGE_PLACES = {"NCHW": (2, 3), "NHWC": (1, 2)}


class ShapeOptions(Protocol):
    """The options that speak of shapes; "" where one was not given."""

    input_shape: str
    input_shape_range: str
    dynamic_batch_size: str
    dynamic_image_size: str
    dynamic_dims: str
    input_format: str


@dataclass(frozen=True)
class Gears:
    """Sizes that a model can be switched between: one list per gear, a value per dim that it fills."""

    kind: str  # "batch", "hw" or "dims"
    values: list[list[int]]


@dataclass(frozen=True)
class Shapes:
    """What the command line says about the inputs. With gears, the dims that they fill are -1 in `static`."""

    static: dict[str, list[int]] = field(default_factory=dict)
    ranges: dict[str, list[Range]] = field(default_factory=dict)  # (low, high), high -1 unbounded
    unnamed_ranges: list[list[Range]] = field(default_factory=list)  # in the order of the inputs
    gears: Gears | None = None
    option: str = "input_shape"  # where ranges came from, for messages
    text: str = ""

    @property
    def dynamic(self) -> bool:
        """Whether shape ranges were given."""
        return bool(self.ranges or self.unnamed_ranges)

    def known(self) -> dict[str, list[int]]:
        """The dims of every named input, -1 where a range or gears leave them open."""
        ranged = {name: [low if low == high else -1 for low, high in pairs] for name, pairs in self.ranges.items()}
        return {**self.static, **ranged}


def parse(options: ShapeOptions) -> Shapes:
    """The shapes that the options ask for."""
    input_shape, input_shape_range = options.input_shape, options.input_shape_range
    texts: dict[str, str] = {name: getattr(options, name) for name in GEAR_OPTIONS}
    gear_options = [name for name, text in texts.items() if text]
    if gear_options:
        static = parse_static(input_shape, gear_options[0]) if input_shape else {}
        together = [*gear_options, *(["input_shape_range"] if input_shape_range else [])]
        if len(together) > 1:
            raise error("E10009", parameters=", ".join(f"[{name}]" for name in together))
        if not input_shape:
            raise error(
                "E10004", parameter="input_shape", reason=f"{gear_options[0]} needs it, with -1 where its sizes go"
            )
        gears = parse_gears(gear_options[0], texts[gear_options[0]], static, input_shape, options.input_format)
        return Shapes(static=static, gears=gears, text=input_shape)
    if input_shape_range:
        return _parse_range_option(input_shape_range)
    if not input_shape:
        return Shapes()
    if _is_dynamic(input_shape):
        return _parse_dynamic(input_shape)
    return Shapes(static=parse_static(input_shape), text=input_shape)


# ---- fixed shapes ----------------------------------------------------------------------------------------------------


def _items(text: str) -> list[tuple[str, str, str]]:
    """Items as (name, colon, dims); the last colon separates, since names may hold colons."""
    parts = text.strip().split(";")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [part.strip().rpartition(":") for part in parts]


def _tokens(dims: str) -> list[str]:
    return [token.strip() for token in dims.split(",")] if dims.strip() else []


def _is_dynamic(text: str) -> bool:
    return any("~" in token or token == "-1" for _, _, dims in _items(text) for token in _tokens(dims))


def parse_static(text: str, gears: str = "") -> dict[str, list[int]]:
    """`a:1,3;b:4` by name; `gears` names the option that fills dims of -1, where there is one."""
    static: dict[str, list[int]] = {}
    for name, colon, dims in _items(text):
        if not colon:
            raise error("E10002", value=text, reason=f"[{dims}] has no colon between the name and the dims")
        _add(static, name, [_size(token, text, gears) for token in _tokens(dims)], text)
    return static


def _add(static: dict[str, list[int]], name: str, dims: list[int], text: str) -> None:
    if not name:
        raise error("E10002", value=text, reason="the name of an input is missing before the colon")
    if name in static:
        raise error("E10002", value=text, reason=f"the input [{name}] is there twice")
    static[name] = dims


def _size(token: str, text: str, gears: str) -> int:
    if gears and "~" in token:
        raise error("E10040", value=text, parameter=gears, reason=f"the range [{token}] and gears do not go together")
    if any(char.isalpha() or char == "." for char in token):
        raise error("E10002", value=text, reason=f"[{token}] is no whole number")
    size = _integer(token, "input_shape")
    if size < 1 and not (gears and size == -1):
        raise error("E10011", value=text, reason=f"the dim {size} is not positive")
    return size


def _integer(token: str, parameter: str) -> int:
    if not _INTEGER.fullmatch(token):
        raise error("E10014", value=token, parameter=parameter)
    if len(token) > 20 or not -_MAX - 1 <= int(token) <= _MAX:
        raise error("E10013", value=token, parameter=parameter)
    return int(token)


# ---- ranges ----------------------------------------------------------------------------------------------------------


def _parse_dynamic(text: str) -> Shapes:
    """Ranges given by input_shape: with names, or without any in the order of the inputs."""
    items = _items(text)
    if not any(colon for _, colon, _ in items):
        unnamed = [[_range(token, text, "input_shape") for token in _tokens(dims)] for _, _, dims in items]
        return Shapes(unnamed_ranges=unnamed, text=text)
    ranges: dict[str, list[Range]] = {}
    for name, _, dims in items:
        if not name or name in ranges:
            reason = f"the input [{name}] is there twice" if name else f"[{dims}] has no name, but others have"
            raise error("E10048", value=text, parameter="input_shape", reason=reason)
        ranges[name] = [_range(token, text, "input_shape") for token in _tokens(dims)]
    return Shapes(ranges=ranges, text=text)


def _parse_range_option(text: str) -> Shapes:
    """Ranges given by input_shape_range, where dims stand in brackets."""
    option = "input_shape_range"
    stripped = text.strip().rstrip(";")
    if stripped.startswith("["):
        if not re.fullmatch(r"\[[^\[\]]*\](\s*[,;]\s*\[[^\[\]]*\])*", stripped):
            raise error("E10048", value=text, parameter=option, reason="brackets or commas are missing: [1~8,3],[4]")
        unnamed = [[_range(token, text, option) for token in _tokens(dims)] for dims in _BRACKETS.findall(stripped)]
        return Shapes(unnamed_ranges=unnamed, option=option, text=text)
    ranges: dict[str, list[Range]] = {}
    for name, colon, dims in _items(stripped):
        if not colon or not name or not _BRACKETS.fullmatch(dims.strip()):
            raise error("E10048", value=text, parameter=option, reason="every item must look like name:[1~8,3]")
        if name in ranges:
            raise error("E10048", value=text, parameter=option, reason=f"the input [{name}] is there twice")
        ranges[name] = [_range(token, text, option) for token in _tokens(dims.strip()[1:-1])]
    return Shapes(ranges=ranges, option=option, text=text)


def _range(token: str, text: str, option: str) -> Range:
    if token == "-1":
        return _ANY
    if option == "input_shape" and any(char.isalpha() or char == "." for char in token):
        raise error("E10002", value=text, reason=f"[{token}] is no whole number and no range")
    span = _SPAN.fullmatch(token)
    if span is None and not _INTEGER.fullmatch(token):
        raise error("E10048", value=text, parameter=option, reason=f"[{token}] is no number, no range and not -1")
    low, high = (_integer(bound, option) for bound in (span.groups() if span else (token, token)))
    if low < 0 or high < 0:
        hint = "; write -1 alone for a dim of any size" if span else ""
        raise error("E10048", value=text, parameter=option, reason=f"[{token}] has a negative bound{hint}")
    if span is None and low == 0:
        raise error("E10048", value=text, parameter=option, reason="a dim of size 0 is not possible")
    return low, high


# ---- gears -----------------------------------------------------------------------------------------------------------


def parse_gears(option: str, text: str, static: dict[str, list[int]], shape_text: str, input_format: str) -> Gears:
    """The gears of one of the dynamic_* options, checked against the shapes that they fill."""
    if option == "dynamic_batch_size":
        _check_batch_places(static)
        values = _batch_gears(text)
    elif option == "dynamic_image_size":
        _check_image_places(static, shape_text, input_format)
        values = _image_gears(text)
    else:
        wanted = sum(dims.count(-1) for dims in static.values())
        if not wanted:
            raise error("E10040", value=shape_text, parameter=option, reason="no dim is -1")
        values = _dims_gears(text)
    _check_gears(option, values)
    if option == "dynamic_dims" and len(values[0]) != wanted:
        first = ",".join((["1"] * wanted)[:16])
        raise error(
            "E10045" if len(values[0]) < wanted else "E10046",
            count=len(values[0]),
            wanted=wanted,
            example=f'--dynamic_dims="{first};{first.replace("1", "2")}"',
        )
    return Gears(_KINDS[option], values)


def _check_batch_places(static: dict[str, list[int]]) -> None:
    for name, dims in static.items():
        if not dims:
            raise error("E10012", name=name)
        if -1 in dims[1:]:
            raise error("E10018", name=name, shape=join(dims))
    if not any(dims[0] == -1 for dims in static.values()):
        name, dims = next(iter(static.items()), ("name", [1]))
        raise error("E10031", example=f'--input_shape="{name}:{join([-1, *dims[1:]])}"')


def _check_image_places(static: dict[str, list[int]], text: str, input_format: str) -> None:
    places = IMAGE_PLACES.get(input_format)
    if places is None:
        raise error(
            "E10001", parameter="input_format", value=input_format, reason="dynamic_image_size needs NCHW or NHWC"
        )
    dynamic = False
    for name, dims in static.items():
        unknown = tuple(index for index, dim in enumerate(dims) if dim == -1)
        if unknown and (len(dims) != 4 or unknown != places):
            example = "1,3,-1,-1" if input_format == "NCHW" else "1,-1,-1,3"
            raise error("E10019", name=name, shape=join(dims), example=f"{name}:{example}")
        dynamic = dynamic or bool(unknown)
    if not dynamic:
        raise error("E10040", value=text, parameter="dynamic_image_size", reason="no dim is -1")


def _batch_gears(text: str) -> list[list[int]]:
    tokens = text.strip().split(",")
    if any(not re.fullmatch("[0-9]+", token, re.ASCII) for token in tokens):
        reason = "it must hold numbers and commas only, such as 1,2,4,8"
        raise error("E10003", parameter="dynamic_batch_size", value=text, reason=reason)
    return [[_integer(token, "dynamic_batch_size")] for token in tokens]


def _image_gears(text: str) -> list[list[int]]:
    values = []
    for part in text.strip().rstrip(";").split(";"):
        tokens = _tokens(part)
        if len(tokens) != 2 or not all(_INTEGER.fullmatch(token) for token in tokens):
            raise error("E10020", value=text)
        values.append([_integer(token, "dynamic_image_size") for token in tokens])
    return values


def _dims_gears(text: str) -> list[list[int]]:
    if not re.fullmatch(r"[0-9,; ]+", text, re.ASCII):
        reason = "it must hold numbers, commas and semicolons only, such as 1,64;1,128"
        raise error("E10001", parameter="dynamic_dims", value=text, reason=reason)
    parts = text.strip().rstrip(";").split(";")
    if any(not token for part in parts for token in part.replace(" ", "").split(",")):
        raise error("E10003", parameter="dynamic_dims", value=text, reason="a number is missing between two separators")
    return [[_integer(token, "dynamic_dims") for token in _tokens(part)] for part in parts]


def _check_gears(option: str, values: list[list[int]]) -> None:
    if len(values) < 2:
        raise error("E10035", parameter=option, count=len(values))
    if len(values) > MAX_GEARS:
        raise error("E10036", parameter=option, count=len(values), limit=MAX_GEARS)
    lengths = [len(gear) for gear in values]
    if len(set(lengths)) > 1:
        raise error("E10037", parameter=option, lengths=join(lengths))
    for value in (number for gear in values for number in gear):
        if value <= 0:
            raise error("E10038", parameter=option, value=value)
    twice = next((gear for index, gear in enumerate(values) if gear in values[:index]), None)
    if twice is not None:
        raise error("E10039", parameter=option, value=join(twice))


def join(numbers: Iterable[int]) -> str:
    """Numbers as the options write them."""
    return ",".join(str(number) for number in numbers)
