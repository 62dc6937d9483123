"""Gears: the sizes that a model was built for, and what each of them makes of inputs and outputs."""

from __future__ import annotations

from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering import evaluate, infer
from softnpu.compiler.lowering.lower import lower
from softnpu.graph import aipp
from softnpu.graph.ir import GIVEN, Graph, Shape, Value


def input_shapes(graph: Graph, kind: str, gear: list[int]) -> dict[str, Shape]:
    """The shape of every input under one gear; for dynamic AIPP that of what it hands to the model."""
    shapes: dict[str, Shape] = {}
    behind = {id(step.data): step.node.output for step in aipp.find(graph) if not step.static}
    rest = list(gear)
    for node in graph.inputs:
        if node.type != "Data":
            continue
        shape = behind.get(id(node), node.output).shape
        assert shape is not None
        if kind == "batch":
            filled = (gear[0], *shape[1:]) if shape and shape[0] < 0 else shape
        elif kind == "hw":
            pair = list(gear)
            filled = tuple(dim if dim >= 0 else pair.pop(0) for dim in shape) if shape.count(-1) == 2 else shape
        else:
            filled = tuple(dim if dim >= 0 else rest.pop(0) for dim in shape)
        shapes[node.name] = filled if id(node) in behind else aipp.memory_shape(node, filled)
    return shapes


def value_shapes(graph: Graph, case: dict[str, Shape]) -> dict[str, Shape]:
    """The shapes of all values for one set of input shapes, as far as they can be told."""
    lowered = lower(graph)
    known, fed = _known(graph)
    fed_shapes = _fed_shapes(graph, case)
    rest = [value for node in graph.nodes if node.type not in GIVEN for value in node.outputs]
    rest = [value for value in rest if not any(value is source for source in fed)]
    inferred = infer.run(graph, lowered, known, rest, fed_shapes)
    return fed_shapes | {name: shape for name, (_, shape) in inferred.items() if shape is not None}


def output_shapes(graph: Graph, cases: list[dict[str, Shape]]) -> list[list[Shape | None]]:
    """The shapes of the outputs for each set of input shapes: inferred where that is possible, else measured."""
    lowered = lower(graph)
    known, fed = _known(graph)
    wanted = [output.value for output in graph.outputs]
    session = None
    answers: list[list[Shape | None]] = []
    for case in cases:
        fed_shapes = _fed_shapes(graph, case)
        inferred = infer.run(graph, lowered, known, wanted, fed_shapes)
        shapes = [fed_shapes.get(value.name) or inferred.get(value.name, (-1, value.shape))[1] for value in wanted]
        if any(shape is None or any(dim < 0 for dim in shape) for shape in shapes):
            if session is None:
                constants = [value for value in known if value.const is not None]
                session = evaluate.session(graph, lowered, fed, wanted, constants)
            feeds = {value.name: evaluate.zeros(value, fed_shapes[value.name]) for value in fed}
            try:
                shapes = [tuple(array.shape) for array in session.run([value.name for value in wanted], feeds)]
            except Exception as error:
                raise AtcError(
                    "E19999",
                    f"The model does not run with the input shapes {', '.join(f'{name}:{list(shape)}' for name, shape in case.items())}: {str(error).splitlines()[0]}",
                    "a gear that the model cannot take",
                    "leave this gear out",
                ) from error
        answers.append(shapes)
    return answers


def _features(graph: Graph) -> dict[str, Value]:
    """Inputs with dynamic AIPP: name → what the model gets of them."""
    return {step.data.name: step.node.output for step in aipp.find(graph) if not step.static}


def _known(graph: Graph) -> tuple[list[Value], list[Value]]:
    """What inference starts from: constants and what is fed; and the latter alone."""
    features = _features(graph)
    fed = [features.get(node.name, node.output) for node in graph.inputs if node.type == "Data"]
    constants = [node.output for node in graph.nodes if node.type == "Const"]
    return constants + fed, fed


def _fed_shapes(graph: Graph, case: dict[str, Shape]) -> dict[str, Shape]:
    """Shapes of the inputs by the names that their values have."""
    features = _features(graph)
    values = {node.name: features.get(node.name, node.output) for node in graph.inputs}
    return {values[name].name: shape for name, shape in case.items()}
