"""From what a program drew to the plan that engines take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from softnpu.base import config
from softnpu.flow import log
from softnpu.flow.drawing.nodes import ATTR_DEPTH, ATTR_FLOW, ATTR_POLICY, FlowData, FlowNode, FlowOutput
from softnpu.flow.drawing.points import FlowGraphProcessPoint, FuncProcessPoint, GraphProcessPoint
from softnpu.flow.errors import DfException
from softnpu.flow.functions.work import UDF_LOADER
from softnpu.flow.models.source import ModelSource
from softnpu.flow.plan import DEFAULT_DEPTH, INPUT, AlignRule, BodySpec, Function, Node, Plan, Port
from softnpu.flow.planning import deploy, numa, validate

DEPLOY_FILE = "ge.experiment.data_flow_deploy_info_path"


@dataclass
class Drawing:
    """What is reachable from the outputs. `order` are the outputs as engines count them, `mapping` leads there."""

    inputs: list[FlowData]
    nodes: list[FlowNode]  # as they are found from the outputs back
    along: list[FlowNode]  # the same, each after those it takes from
    order: list[FlowOutput]
    mapping: list[int]


def check_outputs(outputs: Any) -> None:
    """DfException unless it is a list of outputs of nodes; says what stands in its place."""
    if not isinstance(outputs, list):
        raise DfException(f"outputs is a list of outputs of nodes, not {outputs!r}; write FlowGraph([…]).")
    for output in outputs:
        if isinstance(output, FlowNode):
            raise DfException(
                f"outputs has the node {output.name}; call it with its inputs and put what this gives into the list."
            )
        if isinstance(output, tuple | list):
            raise DfException(
                f"outputs has the {type(output).__name__} {output!r}; put its elements into the list: *…."
            )
        if not isinstance(output, FlowOutput):
            raise DfException(f"outputs is a list of outputs of nodes; {output!r} is none.")


def draw(outputs: Sequence[FlowOutput], bare: bool = False) -> Drawing:
    """Walk back from the outputs; DfException for inputs that are not connected and for cycles."""
    nodes: list[FlowNode] = []
    along: list[FlowNode] = []
    datas: dict[FlowData, None] = {}
    state: dict[FlowNode, bool] = {}  # False while the walk is inside the node
    walk: list[tuple[FlowNode, list[Any]]] = []

    def enter(node: FlowNode) -> None:
        state[node] = False
        nodes.append(node)
        walk.append((node, _sources(node, bare)[::-1]))

    for output in outputs:
        if output.node not in state:
            enter(output.node)
        while walk:
            node, rest = walk[-1]
            if not rest:
                state[node] = True
                along.append(node)
                walk.pop()
                continue
            source = rest.pop()
            if isinstance(source, FlowData):
                datas[source] = None
            elif source.node not in state:
                enter(source.node)
            elif not state[source.node]:
                path = [each.name for each, _ in walk]
                path = path[path.index(source.node.name) :]
                raise DfException(
                    f"The graph has a cycle: {' → '.join([*path[::-1], path[-1]])}; a graph has no loops."
                )
    _check_wiring(nodes)
    order, mapping = arrange(outputs)
    return Drawing(sorted(datas, key=lambda data: data.name), nodes, along, order, mapping)


def _check_wiring(nodes: Sequence[FlowNode]) -> None:
    for node in nodes:
        if node.rewired:
            raise DfException(
                f"The graph is ambiguous: {node.rewired}; make another node for another place in the graph."
            )


def _sources(node: FlowNode, bare: bool) -> list[Any]:
    return [source for source in node._input_anchors if source is not None] if bare else list(node.inputs())


def arrange(outputs: Sequence[FlowOutput]) -> tuple[list[FlowOutput], list[int]]:
    """Outputs by node (in order of first appearance) and index, and where each of the program's went."""
    first: dict[FlowNode, int] = {}
    for output in outputs:
        first.setdefault(output.node, len(first))
    order = sorted(range(len(outputs)), key=lambda at: (first[outputs[at].node], outputs[at].index))
    mapping = [0] * len(outputs)
    for position, at in enumerate(order):
        mapping[at] = position
    return [outputs[at] for at in order], mapping


def plan(
    drawing: Drawing,
    name: str,
    options: dict[str, str],
    align: AlignRule,
    catch: bool,
    n_mapping: bool,
    parallel: bool = False,
    bare: bool = False,
    nested: bool = False,
) -> Plan:
    """The plan: checked, models compiled, instances placed. `bare` (the stub engine) takes nodes without work.

    A `nested` graph runs where its function runs, so the deployment file says nothing about its nodes.
    """
    models = {} if bare else _models(drawing, options, parallel)
    number = {node: index for index, node in enumerate(drawing.along)}
    whole = Plan(
        name,
        tuple(data.name for data in drawing.inputs),
        tuple(_node(node, models, bare) for node in drawing.along),
        _edges(drawing, number),
        tuple(Port(number[output.node], output.index) for output in drawing.order),
        align,
        catch,
        n_mapping,
        options,
    )
    if bare:
        return whole
    validate.check(whole)
    return whole if nested else _placed(whole, options.get(DEPLOY_FILE))


def _placed(whole: Plan, file: str | None) -> Plan:
    """Instances as the deployment file says."""
    if not file:
        return whole
    described = config.resource_config()
    places = deploy.apply(whole, file, numa.read(described) if described else None)
    return replace(whole, nodes=tuple(replace(node, instances=places[deploy.label(node)]) for node in whole.nodes))


def _edges(drawing: Drawing, number: dict[FlowNode, int]) -> dict[Port, tuple[Port, ...]]:
    inputs = {data: index for index, data in enumerate(drawing.inputs)}
    edges: dict[Port, list[Port]] = {}
    for node in drawing.nodes:
        for index, source in enumerate(node._input_anchors):
            if source is None:
                continue
            data = isinstance(source, FlowData)
            start = Port(INPUT, inputs[source]) if data else Port(number[source.node], source.index)  # type: ignore[index,union-attr]
            edges.setdefault(start, []).append(Port(number[node], index))
    return {start: tuple(ends) for start, ends in edges.items()}


# ---- models --------------------------------------------------------------------------------------------------------------

Key = tuple[FlowNode, str]  # a node and the key of its closure; "" for the node's own model


def _models(drawing: Drawing, options: dict[str, str], parallel: bool) -> dict[Key, BodySpec]:
    """All model files of the graph, compiled together."""
    sources: dict[Key, ModelSource] = {}
    for node in drawing.nodes:
        point = node.point
        if isinstance(point, GraphProcessPoint):
            maps = (_inverse(node, "input"), _inverse(node, "output"))
            sources[node, ""] = _source(point, options, node.input_num, node.output_num, *maps)
        elif isinstance(point, FuncProcessPoint):
            for key, closure in point.closures.items():
                if isinstance(closure, GraphProcessPoint):
                    sources[node, key] = _source(closure, options)
    if not sources:
        return {}
    from softnpu.flow.models.build import build_all  # the compiler: 30 ms that most graphs save

    return dict(zip(sources, build_all(list(sources.values()), parallel), strict=True))


def _source(
    point: GraphProcessPoint,
    options: dict[str, str],
    input_num: int | None = None,
    output_num: int | None = None,
    inputs: tuple[int, ...] = (),
    outputs: tuple[int, ...] = (),
) -> ModelSource:
    return ModelSource(
        framework=point.framework.value,
        path=str(point.graph_file),
        name=point.name,
        input_num=input_num,
        output_num=output_num,
        load_params=point.load_params,
        config_path=point.compile_config_path or "",
        options=options,
        inputs=inputs,
        outputs=outputs,
    )


# ---- nodes ---------------------------------------------------------------------------------------------------------------


def _map(node: FlowNode, what: str, count: int) -> list[int]:
    """For each index of the process point the node's; what `map_…` did not say goes by order."""
    told = node._input_map if what == "input" else node._output_map
    limit = node.input_num if what == "input" else node.output_num
    if count != limit or any(index >= count for index in told):
        raise DfException(
            f"Node {node.name} has {limit} {what}s, its process point {count}"
            + (f"; map_{what} names {max(told)}" if told and max(told) >= count else "")
            + ". The numbers have to be the same."
        )
    rest = iter([index for index in range(limit) if index not in told.values()])
    try:
        indexes = [told[index] if index in told else next(rest) for index in range(count)]
    except StopIteration:
        indexes = []
    if sorted(indexes) != list(range(limit)):
        raise DfException(
            f"Node {node.name}: map_{what} gives {what}s of the process point to {told}; each has to be there once."
        )
    return indexes


def _inverse(node: FlowNode, what: str) -> tuple[int, ...]:
    """For each index of the node the model's; empty when they are the same."""
    indexes = _map(node, what, node.input_num if what == "input" else node.output_num)
    inverse = tuple(indexes.index(index) for index in range(len(indexes)))
    return () if inverse == tuple(range(len(indexes))) else inverse


def _node(node: FlowNode, models: dict[Key, BodySpec], bare: bool) -> Node:
    point = node.point
    whole: tuple[Function, ...] = (Function(node.name, tuple(range(node.input_num)), tuple(range(node.output_num))),)
    resources: dict[str, int] = {}
    visible = False
    if bare:
        functions, body = whole, BodySpec("")
    elif isinstance(point, GraphProcessPoint):
        functions, body = whole, models[node, ""]
    elif isinstance(point, FuncProcessPoint) and point.work is not None:
        functions, body = _function_body(node, point, models)
        resources, visible = point.work.resources, point.work.visible_device
    else:
        what = "no process point; add one with add_process_point"
        if point is not None:
            what = f"the process point {point.name}, which does nothing; give it py_func or compile_config_path"
        raise DfException(f"Node {node.name} has {what}.")
    attributes = node.attributes
    tuned = attributes.get(ATTR_FLOW, True)
    return Node(
        name=node.name,
        input_num=node.input_num,
        output_num=node.output_num,
        functions=functions,
        body=body,
        alias=node.alias,
        batches={index: batch.rule() for index, batch in node.batches.items()},
        depth=int(attributes.get(ATTR_DEPTH, DEFAULT_DEPTH)) if tuned else DEFAULT_DEPTH,
        overwrite=bool(tuned) and attributes.get(ATTR_POLICY) == "OVERWRITE",
        balance=node.balance,
        resources=resources,
        visible_device=visible,
        on_device=node.on_device or attributes.get("_npu_sched_model") == 1,
    )


def _function_body(
    node: FlowNode, point: FuncProcessPoint, models: dict[Key, BodySpec]
) -> tuple[tuple[Function, ...], BodySpec]:
    work = point.work
    assert work is not None
    inputs, outputs = _map(node, "input", work.input_num), _map(node, "output", work.output_num)
    functions = tuple(
        replace(each, inputs=tuple(inputs[i] for i in each.inputs), outputs=tuple(outputs[i] for i in each.outputs))
        for each in work.functions
    )
    if (point.closures or point.init_params) and work.loader != UDF_LOADER:
        log.warning(
            "node %s: a decorated function has no context, so its closures and parameters are of no use", node.name
        )
    data = {
        **work.data,
        "functions": work.functions,
        "output_map": outputs,
        "attributes": dict(point.init_params),
        "closures": {key: _closure(node, key, closure, models) for key, closure in point.closures.items()},
    }
    return functions, BodySpec(work.loader, data)


def _closure(node: FlowNode, key: str, closure: Any, models: dict[Key, BodySpec]) -> BodySpec | Plan:
    if isinstance(closure, FlowGraphProcessPoint):
        return closure.flow_graph.plan(nested=True)
    return models[node, key]
