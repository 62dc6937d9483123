"""Gears: the sizes that a model was built for, and what each of them makes of inputs and outputs."""

from __future__ import annotations

from softnpu.compiler import evaluate, infer
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lower import lower
from softnpu.graph.ir import Graph, Node, Shape

SHAPE_INPUT = "ascend_mbatch_shape_data"


def input_shapes(inputs: list[Node], kind: str, gear: list[int]) -> dict[str, Shape]:
    """The shape of every input under one gear."""
    found: dict[str, Shape] = {}
    rest = list(gear)
    for node in inputs:
        shape = node.output.shape
        assert shape is not None
        if kind == "batch":
            found[node.name] = (gear[0], *shape[1:]) if shape and shape[0] < 0 else shape
        elif kind == "hw":
            pair = list(gear)
            found[node.name] = tuple(dim if dim >= 0 else pair.pop(0) for dim in shape) if shape.count(-1) == 2 else shape
        else:
            found[node.name] = tuple(dim if dim >= 0 else rest.pop(0) for dim in shape)
    return found


def output_shapes(graph: Graph, cases: list[dict[str, Shape]]) -> list[list[Shape | None]]:
    """The shapes of the outputs for each set of input shapes: inferred where that is possible, else measured."""
    lowered = lower(graph)
    known = [value for node in graph.nodes if node.type in ("Data", "Const") for value in node.outputs]
    wanted = [output.value for output in graph.outputs]
    session = None
    answers: list[list[Shape | None]] = []
    for case in cases:
        found = infer.run(graph, lowered, known, wanted, case)
        shapes = [case.get(value.name) or found.get(value.name, (-1, value.shape))[1] for value in wanted]
        if any(shape is None or any(dim < 0 for dim in shape) for shape in shapes):
            if session is None:
                constants = [value for value in known if value.const is not None]
                session = evaluate.session(graph, lowered, [node.output for node in graph.inputs], wanted, constants)
            feeds = {node.output.name: evaluate.zeros(node.output, case[node.name]) for node in graph.inputs}
            try:
                shapes = [tuple(one.shape) for one in session.run([value.name for value in wanted], feeds)]
            except Exception as error:
                raise AtcError(
                    "E19999",
                    f"The model does not run with the input shapes {', '.join(f'{name}:{list(shape)}' for name, shape in case.items())}: {str(error).splitlines()[0]}",
                    "a gear that the model cannot take",
                    "leave this gear out",
                ) from error
        answers.append(shapes)
    return answers
