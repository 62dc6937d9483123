"""What programs see of a model: its inputs and outputs, the sizes it can take, the memory it needs."""

from __future__ import annotations

from math import prod

from softnpu.base.dtypes import DType
from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface import gears, memory
from softnpu.compiler.options.rows import Options
from softnpu.compiler.options.shapes import Gears, Shapes
from softnpu.compiler.passes.aipp.insert import describe_input
from softnpu.graph.inout import SHAPE_INPUT, ModelInfo, TensorInfo
from softnpu.graph.ir import ND, Graph, Node, Value

STRING, INT4 = DType.STRING, DType.INT4
_LARGEST_GEAR = 1 << 33  # elements


def describe_model(graph: Graph, wanted: Shapes, options: Options | None = None) -> ModelInfo:
    """Inputs, outputs, gears and sizes."""
    _refuse_types(graph)
    _refuse_sizes(graph)
    info = ModelInfo([], [])
    data = graph.inputs
    static_gears = wanted.gears
    cases = [gears.input_shapes(graph, static_gears.kind, gear) for gear in static_gears.values] if static_gears else []
    _refuse_gears(cases)
    engine: list[str | None] = []
    for node in data:
        value = node.output
        mine = [case[node.name] for case in cases if node.name in case]
        tensor = TensorInfo(
            node.name,
            value.dtype,
            value.format,
            list(value.shape) if value.shape is not None else [-2],
            _input_size(value, mine),
        )
        tensor.ranges = [(low, high) for low, high in value.ranges] or _open_ranges(value, bool(cases))
        describe_input(graph, node, tensor, info.run.aipp, mine)
        info.inputs.append(tensor)
        engine.append(value.name)
    info.run.engine_inputs = engine
    info.run.exact_casts = bool(graph.exact_casts)
    info.run.status_check = options is not None and bool(options.status_check)
    info.run.engine_outputs = [output.value.name for output in graph.outputs]
    if static_gears:
        _describe_gears(graph, info, static_gears, cases)
    else:
        _describe_outputs(graph, info)
        info.memory_size = memory.plan(graph)
    return info


def _refuse_types(graph: Graph) -> None:
    """Programs hand plain numbers to a model; strings and packed types have no form in device memory."""
    values = [("input", node.output) for node in graph.inputs] + [("output", output.value) for output in graph.outputs]
    for role, value in values:
        if value.dtype in (STRING, INT4) or value.dtype >= 1000:
            kind = "strings" if value.dtype == STRING else "a type that offline models cannot hold"
            raise AtcError(
                "E10055",
                f"The {role} [{value.name}] is a tensor of {kind}",
                "inputs and outputs of an offline model are numbers in device memory",
                "cut the model before or behind it with --out_nodes, or change its type",
            )


def _refuse_sizes(graph: Graph) -> None:
    """No machine has tensors of more than 2^62 bytes; numbers beyond do not fit the file."""
    values = [("input", node.output) for node in graph.inputs] + [("output", output.value) for output in graph.outputs]
    for role, value in values:
        dims = [dim for dim in value.shape or () if dim > 0]
        if max(dims, default=0) >= 1 << 62 or prod(tuple(dims)) * 16 >= 1 << 62:
            raise AtcError(
                "E10013",
                f"The {role} [{value.name}] with the dims {list(value.shape or ())} is out of range",
                "a tensor of this size cannot exist",
                "check --input_shape and the shapes of the model",
            )


def _refuse_gears(cases: list[dict[str, tuple[int, ...]]]) -> None:
    """Gears that make inputs which no machine can hold."""
    for case in cases:
        for name, shape in case.items():
            if prod(shape) >= _LARGEST_GEAR:
                raise AtcError(
                    "E10013",
                    f"The input [{name}] with the dims {list(shape)} of a gear is out of range",
                    "a tensor of this size cannot be made",
                    "use smaller gears",
                )


def _open_ranges(value: Value, geared: bool) -> list[tuple[int, int]]:
    """An input with unknown dims and neither range nor gear takes any size there."""
    if value.shape is None:
        return [(0, -1)]  # of any rank
    if geared or value.static:
        return []
    return [(dim, dim) if dim >= 0 else (0, -1) for dim in value.shape]


def _input_size(value: Value, cases: list[tuple[int, ...]]) -> int:
    if cases:
        return max(Value("", value.dtype, case).bytes() for case in cases)
    return value.bytes()


def _describe_outputs(graph: Graph, info: ModelInfo) -> None:
    for output in graph.outputs:
        value = output.value
        info.outputs.append(
            TensorInfo(
                output.name,
                value.dtype,
                value.format,
                list(value.shape if value.shape is not None else [-2]),
                value.bytes(),
            )
        )


def _describe_gears(graph: Graph, info: ModelInfo, wanted: Gears, cases: list[dict[str, tuple[int, ...]]]) -> None:
    shapes_by_gear = gears.output_shapes(graph, cases)
    info.gear_kind = wanted.kind
    info.gears = wanted.values
    info.gear_inputs = [
        [dim for node in graph.inputs if node.name in case for dim in case[node.name]] for case in cases
    ]
    info.gear_outputs = [[list(shape or []) for shape in shapes_of_outputs] for shapes_of_outputs in shapes_by_gear]
    largest = max(range(len(cases)), key=lambda index: sum(prod(shape) for shape in cases[index].values()))
    info.run.largest_gear = largest
    info.memory_size = memory.plan(graph, gears.value_shapes(graph, cases[largest]))
    for index, output in enumerate(graph.outputs):
        value = output.value
        sizes = [
            Value("", value.dtype, tuple(shapes_of_outputs[index] or ())).bytes()
            for shapes_of_outputs in shapes_by_gear
        ]
        info.outputs.append(
            TensorInfo(
                output.name,
                value.dtype,
                value.format,
                list(shapes_by_gear[_most(sizes, largest)][index] or []),
                max(sizes),
            )
        )
    count = len(wanted.values[0])
    position = next((i for i, node in enumerate(graph.inputs) if node.type == "AippData"), len(info.inputs))
    info.inputs.insert(position, TensorInfo(SHAPE_INPUT, 3, ND, [count], 4 * count))
    info.run.engine_inputs.insert(position, None)
    node = Node(SHAPE_INPUT, "Data", [], [Value(SHAPE_INPUT, 3, (count,))], {"index": position, "_added": True})
    graph.add(node, before=graph.nodes[0])


def _most(sizes: list[int], largest: int) -> int:
    """The gear whose dims go with the size that is told: the largest one unless another needs more bytes here."""
    return largest if sizes[largest] == max(sizes) else sizes.index(max(sizes))
