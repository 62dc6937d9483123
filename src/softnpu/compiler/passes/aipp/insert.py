"""AIPP in front of the inputs that a configuration names: static as a node of the model, dynamic with an input of its own.

The Data node becomes uint8 in the layout of memory; what it handed out before is now the AIPP node's output, so that the
rest of the graph does not change. `graph/aipp.py` finds the nodes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.base.aipp import YUV420SP, AippParams, widest
from softnpu.base.aipp_block import MAX_BATCH, block_bytes
from softnpu.base.dtypes import DType, TensorFormat
from softnpu.compiler.errors import AtcError
from softnpu.compiler.messages import error
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Gears
from softnpu.compiler.passes.aipp.config import AippConfig, invalid
from softnpu.graph import aipp
from softnpu.graph.inout import AippEntry, TensorInfo
from softnpu.graph.ir import ND, Graph, Node, Shape, Value

NCHW, NHWC = TensorFormat.NCHW, TensorFormat.NHWC
UINT8 = DType.UINT8
_DTYPES = {0: "float32", 1: "float16", 4: "uint8"}
_ODD_STARTS = frozenset({"910B", "A3", "310B", "950"})  # families that crop YUV420SP at odd places too


@dataclass(frozen=True)
class Setting:
    """What AIPP must know of the conversion: the family of the chip ("" is any), the kind of gears ("batch", "hw", "dims"
    or ""), the largest batch gear, and the inputs that --input_fp16_nodes names."""

    family: str = ""
    gears: str = ""
    max_batch: int = 0
    fp16_inputs: frozenset[str] = frozenset()


def setting(options: Options, gears: Gears | None) -> Setting:
    """The setting of a conversion."""
    batch = max(gear[0] for gear in gears.values) if gears is not None and gears.kind == "batch" else 0
    named = frozenset(name for name in str(options.input_fp16_nodes).split(";") if name)
    return Setting(str(options.chip.get("family", "")), gears.kind if gears is not None else "", batch, named)


@dataclass(frozen=True)
class _Picture:
    """An input that takes pictures, as the model has it: dims by their meaning, -1 unknown."""

    data: Node
    layout: int
    n: int
    c: int
    h: int
    w: int


def insert(graph: Graph, configs: Sequence[AippConfig], setting: Setting | None = None) -> None:
    """Put AIPP in front of the inputs that the configurations name."""
    setting = setting or Setting()
    if setting.gears == "dims":
        raise error("E10001", parameter="insert_op_conf", value="", reason="AIPP and dynamic_dims do not go together")
    inputs = [node for node in graph.inputs if node.type == "Data"]
    taken: set[str] = set()
    for index, config in enumerate(configs):
        picture = _picture(_data(inputs, config), setting)
        if picture.data.name in taken:
            raise invalid(f"two aipp_op are for the same input ({picture.data.name}); one input takes one")
        taken.add(picture.data.name)
        if config.params is None:
            _insert_dynamic(graph, picture, config, index, setting)
        else:
            _insert_static(graph, picture, config.params, index, setting)


def _data(inputs: list[Node], config: AippConfig) -> Node:
    names = ", ".join(node.name for node in inputs)
    if config.name:
        chosen = next((node for node in inputs if config.name in (node.name, *node.origin)), None)
        if chosen is None:
            raise invalid(f"related_input_name {config.name!r} is no input of the model; its inputs are: {names}")
        return chosen
    if config.rank >= len(inputs):
        raise invalid(
            f"related_input_rank is {config.rank}; the model has {len(inputs)} inputs ({names}), counted from 0"
        )
    return inputs[config.rank]


def _picture(data: Node, setting: Setting) -> _Picture:
    value = data.output
    if data.name in setting.fp16_inputs:
        raise error("E10034", name=data.name)
    if value.dtype not in _DTYPES:
        raise invalid(f"the input {data.name} has the type {value.dtype}; AIPP makes {', '.join(_DTYPES.values())}")
    if value.shape is None or len(value.shape) != 4 or value.format not in (NCHW, NHWC, ND):
        shown = "unknown" if value.shape is None else list(value.shape)
        raise invalid(f"the input {data.name} has the shape {shown}; AIPP needs four dims in NCHW or NHWC")
    if value.format == NHWC:
        n, h, w, c = value.shape
    else:
        n, c, h, w = value.shape
    return _Picture(data, NHWC if value.format == NHWC else NCHW, n, c, h, w)


# ---- static ----------------------------------------------------------------------------------------------------------


def _insert_static(graph: Graph, picture: _Picture, params: AippParams, index: int, setting: Setting) -> None:
    if setting.gears == "hw" and (params.crop or params.padding or params.src_w):
        raise invalid(
            f"the input {picture.data.name} has image gears, so crop and padding must be off and src_image_size must be 0"
        )
    params = params.resolved(picture.h, picture.w)
    if picture.h >= 0 and picture.w >= 0 and params.problem():
        raise invalid(
            f"with the model's size {picture.w} x {picture.h} of input {picture.data.name}: {params.problem()}"
        )
    name = f"{picture.data.name}_{index}_aipp"
    _check_channels(name, picture, params)
    _check_size(name, picture, params, setting)
    rows, columns = params.src_h or -1, params.src_w or -1
    source = params.format.memory_dims(picture.n, rows, columns)
    attrs = {"aipp": params.to_json(), **_model_attrs(picture, params.channels)}

    def rows_of(height: int) -> int:
        return params.format.memory_dims(1, height, 1)[1]

    _put(graph, picture, Node(graph.unique(name), aipp.STATIC, attrs=attrs, input_names=["images"]), source, rows_of)
    picture.data.attrs["aipp_format"] = params.input_format
    picture.data.attrs["aipp_dims"] = aipp.input_dims(params.input_format, picture.n, rows, columns)


def _check_channels(name: str, picture: _Picture, params: AippParams) -> None:
    if picture.c in (-1, params.channels) or (picture.c == 1 and params.grey):
        return
    raise AtcError(
        "E81012",
        f"Operator [{name}] (Aipp) makes {params.channels} channels of {params.format.name} with csc_switch {str(params.csc).lower()}, "
        f"the input [{picture.data.name}] takes {picture.c}",
        "the picture format does not fit the model",
        "Choose another input_format, or turn csc_switch on or off",
    )


def _check_size(name: str, picture: _Picture, params: AippParams, setting: Setting) -> None:
    result = params.output_size(-1, -1)
    ranges = picture.data.output.ranges
    places = (1, 2) if picture.layout == NHWC else (2, 3)
    for side, size, wanted, axis in zip(("height", "width"), result, (picture.h, picture.w), places, strict=True):
        low, high = ranges[axis] if ranges and wanted < 0 else (wanted, wanted)
        if size >= 0 and (size < low or size > high >= 0):
            allowed = f"{wanted}" if wanted >= 0 else f"{low} to {high}"
            raise _size_error(
                name,
                side,
                f"the {side} after crop and padding is {size}, the input [{picture.data.name}] takes {allowed}",
            )
    if setting.family and result[1] > widest(setting.family):
        raise _size_error(
            name, "width", f"the width {result[1]} is more than AIPP of this chip writes ({widest(setting.family)})"
        )
    starts = (params.crop_start_w, params.crop_start_h)
    if (
        params.crop
        and params.input_format == YUV420SP
        and setting.family
        and setting.family not in _ODD_STARTS
        and (starts[0] | starts[1]) & 1
    ):
        raise _size_error(
            name, "load_start_pos", f"it is {starts[0]}, {starts[1]}; YUV420SP_U8 needs even numbers on this chip"
        )


def _size_error(name: str, parameter: str, reason: str) -> AtcError:
    return error(
        "E70014",
        name=name,
        type=aipp.STATIC,
        parameter=parameter,
        reason=reason,
        solution="Correct the AIPP configuration",
    )


# ---- dynamic ---------------------------------------------------------------------------------------------------------


def _insert_dynamic(graph: Graph, picture: _Picture, config: AippConfig, index: int, setting: Setting) -> None:
    batch = _largest_batch(picture, setting)
    if batch > MAX_BATCH:
        raise invalid(
            f"the input {picture.data.name} has a batch of {batch}; dynamic AIPP takes up to {MAX_BATCH} pictures"
        )
    node = Node(graph.unique(f"{picture.data.name}_{index}_aipp"), aipp.DYNAMIC, attrs=_model_attrs(picture, -1))
    node.input_names = ["images", "params"]
    _put(graph, picture, node, (picture.n, -1, -1, -1))
    picture.data.attrs["max_src_image_size"] = config.max_src_image_size
    first = graph.node(aipp.PARAMETERS) is None
    block = graph.data_node(
        aipp.PARAMETERS if first else f"{aipp.PARAMETERS}_{node.name}", UINT8, (block_bytes(batch),)
    )
    block.type = "AippData"
    graph.nodes.remove(block)
    graph.add(block, before=node)
    node.inputs.append(block.output)


def _largest_batch(picture: _Picture, setting: Setting) -> int:
    if picture.n >= 0:
        return picture.n
    ranges = picture.data.output.ranges
    return setting.max_batch or (ranges[0][1] if ranges and ranges[0][1] > 0 else 1)


# ---- both ------------------------------------------------------------------------------------------------------------


def _model_attrs(picture: _Picture, channels: int) -> dict[str, Any]:
    """What the model took before, for the operator's body."""
    value = picture.data.output
    shape = list(value.shape or ())
    channel_axis = 3 if picture.layout == NHWC else 1
    shape[channel_axis] = shape[channel_axis] if shape[channel_axis] >= 0 else channels
    return {"model_dtype": value.dtype, "model_format": picture.layout, "model_shape": shape}


def _put(
    graph: Graph, picture: _Picture, node: Node, source: Shape, rows: Callable[[int], int] = lambda height: height
) -> None:
    """Put a node behind a Data: its output is the Data's old value, under the name that bodies inside operators know; the
    Data gets a new one (programs see the Data's own name)."""
    data, old = picture.data, picture.data.output
    new = Value(graph.unique(f"{old.name}_source"), UINT8, source, NHWC)
    new.words = _words(old.words, picture, source)
    new.ranges = _ranges(old.ranges, picture, source, rows)
    old.words, old.ranges = (), ()
    data.outputs, new.producer = [new], data
    node.inputs, node.outputs, old.producer = [new], [old], node
    graph.nodes.insert(graph.nodes.index(data) + 1, node)


def _words(words: tuple[str, ...], picture: _Picture, source: Shape) -> tuple[str, ...]:
    """Names of the open dims; rows have none, since a row of a plane is no row of the picture."""
    if not words:
        return ()
    wide = words[2 if picture.layout == NHWC else 3] if len(words) == 4 else ""
    return words[0], "", wide if source[2] < 0 else "", ""


def _ranges(
    ranges: tuple[tuple[int, int], ...], picture: _Picture, source: Shape, rows: Callable[[int], int]
) -> tuple[tuple[int, int], ...]:
    """Sizes that are open in memory: those of the batch, of the rows that a height takes there, of the width."""
    if not ranges:
        return ()
    high, wide = (ranges[1], ranges[2]) if picture.layout == NHWC else (ranges[2], ranges[3])
    low, most = (bound if bound < 0 else rows(bound) for bound in high)
    mine = (ranges[0], (low, most), wide, (1, -1))
    return tuple((dim, dim) if dim >= 0 else mine[axis] for axis, dim in enumerate(source))


# ---- what programs see -----------------------------------------------------------------------------------------------


def describe_input(
    graph: Graph, node: Node, tensor: TensorInfo, entries: dict[str, AippEntry], cases: Sequence[Shape]
) -> None:
    """Complete the description of an input with AIPP, and note in `entries`, under its name, what the executor needs: the type
    (aclmdlInputAippType), and for static AIPP the answer of get_first_aipp_info. `cases` are the shapes of the gears."""
    for step in aipp.find(graph):
        if step.block is node:
            entries[node.name] = AippEntry(3)
        if step.data is not node:
            continue
        if step.static:
            _describe_static(step, tensor, entries, cases)
        else:
            _describe_dynamic(step, tensor, entries)


def _describe_static(
    step: aipp.AippInput, tensor: TensorInfo, entries: dict[str, AippEntry], cases: Sequence[Shape]
) -> None:
    shape = step.data.output.shape or ()
    tensor.dims, tensor.dims_v2 = list(step.data.attrs["aipp_dims"]), list(shape)
    sizes = [aipp.source_size(step.data, case) for case in (cases or [shape])]
    known = [size for size in sizes if min(size) >= 0]
    entries[step.data.name] = AippEntry(1, aipp.first_info(step, known))


def _describe_dynamic(step: aipp.AippInput, tensor: TensorInfo, entries: dict[str, AippEntry]) -> None:
    tensor.size, tensor.ranges = step.max_src_image_size, []
    attrs = step.node.attrs
    assert step.block is not None
    entries[step.data.name] = AippEntry(
        2,
        block=step.block.name,
        feature=step.node.output.name,
        dtype=attrs["model_dtype"],
        format=attrs["model_format"],
        shape=attrs["model_shape"],
        max_src_image_size=step.max_src_image_size,
    )
