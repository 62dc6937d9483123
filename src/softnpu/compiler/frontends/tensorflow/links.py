"""Which operators of a GraphDef matter, in which order, and what leaves the model."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.errors import AtcError

THROUGH = frozenset(
    {"Identity", "IdentityN", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "Print", "EnsureShape"}
)
DROPPED = frozenset(
    {
        "NoOp",
        "Assert",
        "PrintV2",
        "ScalarSummary",
        "HistogramSummary",
        "ImageSummary",
        "TensorSummary",
        "TensorSummaryV2",
        "MergeSummary",
    }
)
PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
VARIABLES = frozenset(
    {
        "Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "AutoReloadVariable", "TemporaryVariable", "Assign", "AssignAdd",
        "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "VarIsInitializedOp", "IsVariableInitialized",
        "ResourceGather", "ResourceGatherNd", "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2", "RestoreV2", "SaveV2",
    }
)  # fmt: skip
CONTROL = frozenset(
    {
        "Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond",
        "TensorArrayV3", "TensorArrayReadV3", "TensorArrayWriteV3", "TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArraySizeV3",
    }
)  # fmt: skip

Nodes = dict[str, dict[str, Any]]


def split(reference: str) -> tuple[str, int]:
    """`name` or `name:index`; control inputs begin with ^ and do not come here."""
    name, colon, index = reference.rpartition(":")
    return (name, int(index)) if colon and index.isdecimal() and index.isascii() else (reference, 0)


def by_name(nodes: list[dict[str, Any]]) -> Nodes:
    """The operators by their names, which must be there and differ."""
    known: Nodes = {}
    for node in nodes:
        name = node.get("name", "")
        if not name or not node.get("op", ""):
            raise AtcError(
                "E12004",
                f"An operator has the name [{name}] and the type [{node.get('op', '')}]",
                "one of them is missing",
                "export again",
            )
        if name in known:
            raise AtcError("E19009", f"Two operators are named [{name}]", "names must differ", "rename one of them")
        known[name] = node
    return known


def references(node: dict[str, Any]) -> list[tuple[str, int]]:
    """The data inputs of an operator."""
    return [split(reference) for reference in node.get("input", ()) if not reference.startswith("^")]


def leaves(nodes: Nodes) -> list[str]:
    """Operators whose results nobody takes: what the model hands out, in the order of the file."""
    taken: set[str] = set()
    for node in nodes.values():
        taken.update(name for name, _ in references(node))
        if node["op"] not in DROPPED:  # a group at the end of a graph only says what belongs together
            taken.update(
                reference[1:].partition(":")[0] for reference in node.get("input", ()) if reference.startswith("^")
            )
    silent = DROPPED | PLACEHOLDERS | {"Const"}
    return [name for name, node in nodes.items() if name not in taken and node["op"] not in silent]


def ordered(nodes: Nodes, roots: list[str]) -> list[str]:
    """The roots and everything they depend on, sources first; raises for a missing source and for a circle."""
    state: dict[str, int] = {}  # 1 while its sources are visited, 2 when done
    order: list[str] = []
    for root in roots:
        stack = [root]
        while stack:
            name = stack[-1]
            if state.get(name) == 2:
                stack.pop()
            elif state.get(name) == 1:
                state[name] = 2
                order.append(name)
                stack.pop()
            else:
                state[name] = 1
                stack += reversed([source for source in _sources(nodes, name, state) if state.get(source) != 2])
    return order


def _sources(nodes: Nodes, name: str, state: dict[str, int]) -> list[str]:
    sources = [source for source, _ in references(nodes[name])]
    for source in sources:
        if source not in nodes:
            raise AtcError(
                "E12004",
                f"The operator [{name}] takes [{source}], which is not in the graph",
                "the graph was cut or damaged",
                "export the model again",
            )
        if state.get(source) == 1:
            raise AtcError(
                "E12009",
                f"The operators [{source}] and [{name}] depend on each other",
                "the graph has a loop of V1 control flow, or is damaged",
                "freeze the graph with functional control flow, without loops",
            )
    return sources


def count_results(nodes: Nodes, names: list[str]) -> dict[str, int]:
    """How many results of each operator are taken by the named ones."""
    counts: dict[str, int] = {}
    for name in names:
        for source, index in references(nodes[name]):
            counts[source] = max(counts.get(source, 0), index + 1)
    return counts
