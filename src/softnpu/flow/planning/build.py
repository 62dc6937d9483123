"""From what a program drew to the plan that engines take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from softnpu.base import config
from softnpu.flow.drawing.nodes import ATTR_DEPTH, ATTR_FLOW, ATTR_POLICY, FlowData, FlowNode, FlowOutput
from softnpu.flow.drawing.process_point import NodeBody
from softnpu.flow.errors import DfException
from softnpu.flow.models.source import ModelSource
from softnpu.flow.plan import DEFAULT_DEPTH, INPUT, AlignRule, BodySpec, Node, Plan, Port
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

Models = dict[FlowNode, dict[str, BodySpec]]  # by node, and by the keys that its process point gave them


def _models(drawing: Drawing, options: dict[str, str], parallel: bool) -> Models:
    """All model files of the graph, compiled together; for each node those of its process point."""
    sources: dict[tuple[FlowNode, str], ModelSource] = {}
    for node in drawing.nodes:
        if node.point is not None:
            for key, source in node.point._models(options, node._ports()).items():
                sources[node, key] = source
    if not sources:
        return {}
    from softnpu.flow.models.build import build_all  # the compiler: 30 ms that most graphs save

    models: Models = {}
    for (node, key), spec in zip(sources, build_all(list(sources.values()), parallel), strict=True):
        models.setdefault(node, {})[key] = spec
    return models


# ---- nodes ---------------------------------------------------------------------------------------------------------------


def _node(node: FlowNode, models: Models, bare: bool) -> Node:
    does = NodeBody((node._ports().whole(),), BodySpec("")) if bare else _body(node, models)
    attributes = node.attributes
    tuned = attributes.get(ATTR_FLOW, True)
    return Node(
        name=node.name,
        input_num=node.input_num,
        output_num=node.output_num,
        functions=does.functions,
        body=does.body,
        alias=node.alias,
        batches={index: batch.rule() for index, batch in node.batches.items()},
        depth=int(attributes.get(ATTR_DEPTH, DEFAULT_DEPTH)) if tuned else DEFAULT_DEPTH,
        overwrite=bool(tuned) and attributes.get(ATTR_POLICY) == "OVERWRITE",
        balance=node.balance,
        resources=does.resources,
        visible_device=does.visible_device,
        on_device=node.on_device or attributes.get("_npu_sched_model") == 1,
    )


def _body(node: FlowNode, models: Models) -> NodeBody:
    """What the process point says; DfException where there is none, or it does nothing."""
    point = node.point
    if point is None:
        raise DfException(f"Node {node.name} has no process point; add one with add_process_point.")
    body = point._body(node._ports(), models.get(node, {}))
    if body is None:
        raise DfException(
            f"Node {node.name} has the process point {point.name}, which does nothing; give it py_func or compile_config_path."
        )
    return body
