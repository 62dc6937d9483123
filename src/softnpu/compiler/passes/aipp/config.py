"""AIPP configuration files (`--insert_op_conf`): the table of insert_op.proto, and reading with every check that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softnpu.base.aipp import FORMAT_NAMES, FORMATS, MAX_FACTOR, MAX_PADDING, MAX_SIDE, AippParams, csc_defaults
from softnpu.compiler.errors import AtcError
from softnpu.compiler.messages import error
from softnpu.graph.text import TextError, parse
from softnpu.graph.wire import Message

_MAX_BYTES = 1 << 20
_CHANNELS, _TRIPLE = range(4), range(3)
_MATRIX = tuple(f"matrix_r{row}c{column}" for row in _TRIPLE for column in _TRIPLE)
_NUMBERS = (*_MATRIX, *(f"output_bias_{i}" for i in _TRIPLE), *(f"input_bias_{i}" for i in _TRIPLE))
_MODES = {"undefined": 0, "static": 1, "dynamic": 2}

AIPP_OP = Message("AippOpParams").add(
    aipp_mode=(1, _MODES),
    related_input_rank=(2, "uint32"),
    input_edge_idx=(3, "uint32", True),
    max_src_image_size=(4, "uint32"),
    support_rotation=(5, "bool"),
    related_input_name=(6, "string"),
    **{f"mean_chn_{i}": (number, "int32") for i, number in enumerate((10, 11, 12, 19))},
    **{f"min_chn_{i}": (number, "float") for i, number in enumerate((13, 14, 15, 20))},
    **{f"var_reci_chn_{i}": (number, "float", True) for i, number in enumerate((16, 17, 18, 21))},
    **{name: (number, "int32", True) for number, name in enumerate(_NUMBERS, 30)},
    raw_rgbir_to_f16_n=(45, "uint32"),
    input_format=(51, FORMAT_NAMES),
    csc_switch=(52, "bool"),
    cpadding_value=(53, "float"),
    rbuv_swap_switch=(54, "bool"),
    ax_swap_switch=(55, "bool"),
    single_line_mode=(56, "bool"),
    src_image_size_w=(57, "int32"),
    src_image_size_h=(58, "int32"),
    crop=(59, "bool"),
    load_start_pos_w=(60, "int32"),
    load_start_pos_h=(61, "int32"),
    crop_size_w=(62, "int32"),
    crop_size_h=(63, "int32"),
    resize=(64, "bool"),
    resize_output_w=(65, "int32"),
    resize_output_h=(66, "int32"),
    padding=(67, "bool"),
    left_padding_size=(68, "int32"),
    right_padding_size=(69, "int32"),
    top_padding_size=(70, "int32"),
    bottom_padding_size=(71, "int32"),
    padding_value=(72, "float"),
)
MULTI_SHAPE_OP = Message("MultiShapeOpParams").add(
    mode=(1, {"batch": 0, "resolution": 1}), related_input_rank=(2, "uint32"), batch_list=(11, "uint32", True)
)
INSERT_NEW_OPS = Message("InsertNewOps").add(aipp_op=(1, AIPP_OP, True), multi_shape_op=(2, MULTI_SHAPE_OP, True))

_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_MATRIX, (-32768, 32767)),
    **{f"{direction}_bias_{i}": (0, 255) for direction in ("output", "input") for i in _TRIPLE},
    **{f"mean_chn_{i}": (0, 255) for i in _CHANNELS},
    **{f"min_chn_{i}": (0, 255) for i in _CHANNELS},
    **{f"var_reci_chn_{i}": (-MAX_FACTOR, MAX_FACTOR) for i in _CHANNELS},
    **{f"{side}_padding_size": (0, MAX_PADDING) for side in ("left", "right", "top", "bottom")},
    **{f"{size}_{side}": (0, MAX_SIDE) for size in ("src_image_size", "crop_size") for side in "wh"},
    **{f"load_start_pos_{side}": (0, MAX_SIDE - 1) for side in "wh"},
    "padding_value": (-MAX_FACTOR, MAX_FACTOR),
    "cpadding_value": (-MAX_FACTOR, MAX_FACTOR),
}
_FOR_DYNAMIC = frozenset(
    {"aipp_mode", "related_input_rank", "related_input_name", "max_src_image_size", "input_edge_idx"}
)
_FIELDS = {
    "csc_switch": "csc", "rbuv_swap_switch": "rbuv_swap", "ax_swap_switch": "ax_swap", "single_line_mode": "single_line",
    "src_image_size_w": "src_w", "src_image_size_h": "src_h", "crop": "crop", "load_start_pos_w": "crop_start_w",
    "load_start_pos_h": "crop_start_h", "crop_size_w": "crop_w", "crop_size_h": "crop_h", "padding": "padding",
    "left_padding_size": "left", "right_padding_size": "right", "top_padding_size": "top",
    "bottom_padding_size": "bottom", "padding_value": "padding_value",
}  # fmt: skip


@dataclass(frozen=True)
class AippConfig:
    """One aipp_op of a file: which input it is for (a name, else the number of the input), and what to do there."""

    rank: int = 0
    name: str = ""
    params: AippParams | None = None  # None is dynamic AIPP
    max_src_image_size: int = 0
    unused: tuple[str, ...] = ()  # fields that are given and have no effect, for a warning

    @property
    def dynamic(self) -> bool:
        """Whether the application gives the parameters when the model runs."""
        return self.params is None

    @property
    def target(self) -> str:
        """The input in a sentence."""
        return f"related_input_name {self.name!r}" if self.name else f"related_input_rank {self.rank}"


def invalid(reason: str) -> AtcError:
    """The error of a configuration that cannot be used."""
    return error("E10052", reason=reason)


def read(path: str | Path) -> list[AippConfig]:
    """The operators of a configuration file."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as problem:
        raise error("E21001", parameter="insert_op_conf", value=path, reason=problem.strerror or "") from problem
    if len(data) > _MAX_BYTES:
        raise invalid(f"the file is larger than {_MAX_BYTES} bytes; this is no AIPP configuration")
    try:
        return from_text(data.decode())
    except UnicodeDecodeError as problem:
        raise invalid(f"the file is no text: byte {problem.start} is not UTF-8") from problem


def from_text(text: str) -> list[AippConfig]:
    """The operators of a configuration given as text."""
    try:
        message = parse(INSERT_NEW_OPS, text)
    except TextError as problem:
        raise invalid(str(problem)) from problem
    if message.get("multi_shape_op"):
        raise invalid("multi_shape_op is not supported; use --dynamic_batch_size or --dynamic_image_size")
    operators = message.get("aipp_op", [])
    if not operators:
        raise invalid("the file has no aipp_op")
    configs = [_config(operator, index) for index, operator in enumerate(operators)]
    _check_together(operators, configs)
    return configs


def _check_together(operators: list[dict[str, Any]], configs: list[AippConfig]) -> None:
    if len({config.dynamic for config in configs}) > 1:
        raise invalid("aipp_mode is static in one aipp_op and dynamic in another; a model has one of them")
    if any("related_input_rank" in operator for operator in operators) and any(
        operator.get("related_input_name") for operator in operators
    ):
        raise invalid("related_input_rank and related_input_name are both used; name the inputs in one of the two ways")
    seen: set[str] = set()
    for config in configs:
        if config.target in seen:
            raise invalid(f"two aipp_op are for the same input ({config.target}); one input takes one")
        seen.add(config.target)


def _config(operator: Mapping[str, Any], index: int) -> AippConfig:
    where = f"aipp_op number {index + 1}: " if index else ""
    plain = {name: _value(name, value, where) for name, value in operator.items()}
    mode = plain.get("aipp_mode", 0)
    if mode == 0:
        raise invalid(f"{where}aipp_mode is missing; it must be static or dynamic")
    if plain.get("input_edge_idx", 0) != 0:
        raise invalid(f"{where}input_edge_idx is {plain['input_edge_idx']}; an input has one output, number 0")
    rank, name = plain.get("related_input_rank", 0), plain.get("related_input_name", "")
    if mode == _MODES["dynamic"]:
        size = plain.get("max_src_image_size", 0)
        if size <= 0:
            raise invalid(
                f"{where}max_src_image_size is {size}; dynamic AIPP needs the bytes of the largest source picture"
            )
        return AippConfig(rank, name, None, size, tuple(field for field in plain if field not in _FOR_DYNAMIC))
    unused = tuple(
        field for field in ("max_src_image_size", "cpadding_value", "raw_rgbir_to_f16_n") if plain.get(field)
    )
    return AippConfig(rank, name, _params(plain, where), 0, unused)


def _value(name: str, value: Any, where: str) -> Any:
    """The value of a field, in its range; fields are repeated only to tell "given" from "not given"."""
    if isinstance(value, list):
        if len(value) != 1:
            raise invalid(f"{where}{name} is given {len(value)} times; it holds one number")
        value = value[0]
    low, high = _RANGES.get(name, (value, value))
    if isinstance(value, int | float) and not low <= value <= high:  # NaN is in no range
        raise invalid(f"{where}{name} is {value:g}; allowed is {low:g} to {high:g}")
    return value


def _params(plain: Mapping[str, Any], where: str) -> AippParams:
    code = plain.get("input_format", 0)
    if code not in FORMATS:
        named = next((name for name, number in FORMAT_NAMES.items() if number == code), "missing")
        allowed = ", ".join(source_format.name for source_format in FORMATS.values())
        raise invalid(f"{where}input_format is {named}; static AIPP needs one of {allowed}")
    if plain.get("resize"):
        raise invalid(f"{where}resize is true; no supported chip resizes in AIPP, resize the picture before the model")
    if plain.get("support_rotation"):
        raise invalid(f"{where}support_rotation is true; AIPP does not rotate")
    matrix, input_bias, output_bias = csc_defaults(code)
    params = AippParams(
        input_format=code,
        **{field: plain[name] for name, field in _FIELDS.items() if name in plain},
        matrix=_many(plain, _MATRIX, matrix),
        input_bias=_many(plain, [f"input_bias_{i}" for i in _TRIPLE], input_bias),
        output_bias=_many(plain, [f"output_bias_{i}" for i in _TRIPLE], output_bias),
        mean=_many(plain, [f"mean_chn_{i}" for i in _CHANNELS], (0,) * 4),
        min=_many(plain, [f"min_chn_{i}" for i in _CHANNELS], (0.0,) * 4),
        var_reci=_many(plain, [f"var_reci_chn_{i}" for i in _CHANNELS], (1.0,) * 4),
    )
    problem = params.problem() or _open_problem(params)
    if problem:
        raise invalid(where + problem)
    return params


def _many(plain: Mapping[str, Any], names: Any, usual: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(plain.get(name, default) for name, default in zip(names, usual, strict=True))


def _open_problem(params: AippParams) -> str:
    """What is wrong with sizes that are left to the model, or ""."""
    if not params.src_w and (params.crop or params.padding):
        step = "crop" if params.crop else "padding"
        return (
            f"src_image_size_w and src_image_size_h are missing; with {step} on, the size of the source must be given"
        )
    if params.crop and bool(params.crop_w) != bool(params.crop_h):
        return f"crop_size_w is {params.crop_w} and crop_size_h is {params.crop_h}; give both or none"
    if params.crop and params.padding and not params.crop_w:
        return "crop_size_w and crop_size_h are missing; with padding on, they must be given"
    return ""
