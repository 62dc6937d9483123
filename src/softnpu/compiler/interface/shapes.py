"""Input shapes on a graph: `apply` compares what the options say with the model, and sets shapes, ranges and the names of
dims (`words`) on its Data nodes."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator

from softnpu.compiler.errors import AtcError
from softnpu.compiler.messages import error
from softnpu.compiler.options.shapes import IMAGE_PLACES, Gears, Range, Shapes, join
from softnpu.graph.ir import Graph, Node, Value

_EXAMPLE_SIDE, _EXAMPLE_LENGTH = 224, 128


def apply(graph: Graph, shapes: Shapes, input_format: str = "NCHW") -> None:
    """Set shapes, ranges and names of dims on the inputs of a graph; raises when they do not fit or one is missing.

    The values of dims gears are in the order of the inputs afterwards, whatever the order in --input_shape was."""
    said: set[int] = set()
    columns = _columns(shapes.gears)
    for name, dims in shapes.static.items():
        value = find_input(graph, name, "input_shape").output
        _check_count(value, name, len(dims), join(dims), "input_shape")
        value.words = tuple(next(columns) if dim == -1 else "" for dim in dims) if -1 in dims else ()
        value.shape, value.ranges = tuple(dims), ()
        said.add(id(value))
    for node, ranges in _ranged(graph, shapes):
        _apply_ranges(node, ranges, shapes.option)
        said.add(id(node.output))
    if shapes.gears is not None and shapes.gears.kind == "dims":
        _order_gears(graph, shapes.static, shapes.gears)
    missing = [node for node in graph.inputs if id(node.output) not in said and not node.output.static]
    if missing:
        raise _missing(missing, shapes, input_format)


def _order_gears(graph: Graph, static: dict[str, list[int]], gears: Gears) -> None:
    """Bring the values of every gear from the order of input_shape into that of the inputs."""
    places: dict[str, list[int]] = {}
    count = 0
    for name, dims in static.items():
        unknown = dims.count(-1)
        places[find_input(graph, name, "input_shape").name] = list(range(count, count + unknown))
        count += unknown
    order = [column for node in graph.inputs for column in places.get(node.name, ())]
    for gear in gears.values:
        gear[:] = [gear[column] for column in order]


def _columns(gears: Gears | None) -> Iterator[str]:
    """Names for the dims that gears fill, in order: dims that are equal in every gear have one name."""
    if gears is None:
        return iter(())
    if gears.kind == "batch":
        return itertools.repeat("batch")
    if gears.kind == "hw":
        return itertools.cycle(("height", "width"))
    columns = list(zip(*gears.values, strict=True))
    return iter([f"gear_{columns.index(column)}" for column in columns])


def find_input(graph: Graph, name: str, option: str) -> Node:
    """The input of a name; raises E10016 or E10017. TensorFlow names may end with `:0`."""
    inputs = {node.name: node for node in graph.inputs}
    short = name.removesuffix(":0") if graph.framework == 3 else name
    if name in inputs or short in inputs:
        return inputs.get(name) or inputs[short]
    node = graph.node(name) or next((value.producer for value in graph.values() if value.name == name), None)
    if node is not None:
        raise error("E10017", name=name, parameter=option, type=node.type, inputs=", ".join(inputs))
    raise error("E10016", name=name, parameter=option, reason=near(name, list(inputs), "the inputs are"))


def near(name: str, known: list[str], words: str) -> str:
    """The reason for a name that is not there: what is near it, and what there is."""
    close = difflib.get_close_matches(name, known, 3, 0.5)
    listed = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
    return (f"did you mean {' or '.join(close)}? " if close else "") + f"{words}: {listed or 'none'}"


def _ranged(graph: Graph, shapes: Shapes) -> list[tuple[Node, list[Range]]]:
    if shapes.unnamed_ranges:
        inputs = graph.inputs
        if len(shapes.unnamed_ranges) > len(inputs):
            reason = f"it has {len(shapes.unnamed_ranges)} shapes, the model has {len(inputs)} inputs"
            raise error("E10048", value=shapes.text, parameter=shapes.option, reason=reason)
        return list(zip(inputs, shapes.unnamed_ranges, strict=False))
    return [(find_input(graph, name, shapes.option), ranges) for name, ranges in shapes.ranges.items()]


def _check_count(value: Value, name: str, count: int, text: str, option: str) -> None:
    if value.shape is not None and len(value.shape) != count:
        shape = ",".join(_dims_text(value))
        raise error(
            "E10049", name=name, parameter=option, count=count, value=text, wanted=len(value.shape), shape=shape
        )


def _apply_ranges(node: Node, ranges: list[Range], option: str) -> None:
    value = node.output
    texts = [_range_text(span) for span in ranges]
    _check_count(value, node.name, len(ranges), ",".join(texts), option)
    model = value.shape if value.shape is not None else (-1,) * len(ranges)
    for index, (dim, (low, high)) in enumerate(zip(model, ranges, strict=True)):
        if high != -1 and low > high:
            raise error("E10048", value=texts[index], parameter=option, reason=f"{low} is more than {high}")
        if dim >= 0 and (dim < low or (high != -1 and dim > high)):
            raise error("E10050", name=node.name, index=index, dim=dim, range=texts[index], parameter=option)
    old = value.words
    shape = tuple(low if low == high else -1 for low, high in ranges)
    value.shape = shape
    if -1 in shape:
        value.ranges = tuple(ranges)
        names = [
            old[index] if index < len(old) and old[index] else f"{node.name}_{index}" for index in range(len(shape))
        ]
        value.words = tuple(name if dim == -1 else "" for name, dim in zip(names, shape, strict=True))
    else:
        value.ranges = value.words = ()


def _range_text(span: Range) -> str:
    low, high = span
    return "-1" if high == -1 else str(low) if low == high else f"{low}~{high}"


def _dims_text(value: Value) -> list[str]:
    words = value.words
    dims = value.shape or ()
    return [words[i] if dim < 0 and i < len(words) and words[i] else str(dim) for i, dim in enumerate(dims)]


def _missing(nodes: list[Node], shapes: Shapes, input_format: str) -> AtcError:
    """The error about inputs of unknown shape, with the option to add."""
    node = nodes[0]
    if node.output.shape is None:
        what = f"the shape of input [{node.name}] is not known, not even how many dims it has"
    else:
        unknown = [str(index) for index, dim in enumerate(node.output.shape) if dim < 0]
        what = f"input [{node.name}] has the shape [{','.join(_dims_text(node.output))}], whose dims {', '.join(unknown)} are not known"
    known = [f"{name}:{join(dims)}" for name, dims in shapes.static.items()]
    known += [f"{name}:{','.join(map(_range_text, ranges))}" for name, ranges in shapes.ranges.items()]
    option = ";".join(
        [
            *known,
            *(f"{unknown_input.name}:{join(_example(unknown_input.output, input_format))}" for unknown_input in nodes),
        ]
    )
    return error(
        "E10001",
        parameter="input_shape",
        value=shapes.text,
        reason=f'{what}; add for example --input_shape="{option}"',
        cause="the model was exported with dynamic axes",
        solution=f'Add --input_shape="{option}" with the sizes you need; -1 or a range such as 1~8 keeps a dim dynamic',
    )


def _example(value: Value, input_format: str) -> list[int]:
    if value.shape is None:
        return [1, 3, _EXAMPLE_SIDE, _EXAMPLE_SIDE]
    sides = IMAGE_PLACES.get(input_format, ()) if len(value.shape) == 4 else ()
    guesses = [
        1 if index == 0 else _EXAMPLE_SIDE if index in sides else 3 if sides else _EXAMPLE_LENGTH
        for index in range(len(value.shape))
    ]
    return [guess if dim < 0 else dim for guess, dim in zip(guesses, value.shape, strict=True)]
