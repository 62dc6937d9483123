"""A stored program taken apart: the ONNX operators of each CANN node as one unit, with what goes in and out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softnpu.base.dtypes import FORMAT_NAMES, TensorFormat, from_ge
from softnpu.compiler.lowering.lower import captures
from softnpu.graph.om import Om, StoredProgram, attr_value, damaged
from softnpu.graph.onnx_def import GRAPH
from softnpu.graph.wire import WireError, decode

ND = TensorFormat.ND
_FORMATS = {name: number for number, name in FORMAT_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the model's graph says about a node."""

    name: str
    type: str
    number: int = 0
    origin: tuple[str, ...] = ()
    input_formats: tuple[int, ...] = ()
    constants: int = 0  # how many of its inputs are constants
    outputs: tuple[tuple[int, int, tuple[int, ...]], ...] = ()  # type, format, dims of each


@dataclass(slots=True)
class Unit:
    """The operators of one node. `taken` and `made` are the names that cross its border, in order of use."""

    facts: Facts
    ops: list[dict[str, Any]]
    taken: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # what the node itself calls its inputs
    sessions: dict[tuple[Any, ...], Any] = field(default_factory=dict)


@dataclass(slots=True)
class Piece:
    """A program as units, with its constants by name."""

    program: StoredProgram
    units: list[Unit]
    small: dict[str, dict[str, Any]]  # TensorProto by name
    large: dict[str, tuple[int, list[int], int, int]]  # ONNX type, dims, place and bytes by name
    last_use: dict[str, int]  # after which unit a name is needed no more
    constants: dict[str, Any] = field(default_factory=dict)  # values made from small and large so far


def facts_of(source: Om) -> dict[str, Facts]:
    """The nodes of a model by name."""
    facts: dict[str, Facts] = {}
    for graph in source.model_def().get("graph", ()):
        for op in graph.get("op", ()):
            name = op.get("name", "")
            attrs = op.get("attr", {})
            origin = attr_value(attrs.get("_datadump_original_op_names", {})) or [name]
            pairs = zip(op.get("input", ()), op.get("input_desc", ()), strict=False)
            formats = tuple(_FORMATS.get(desc.get("layout", ""), ND) for value_name, desc in pairs if value_name)
            outputs = tuple(
                (
                    from_ge(desc.get("dtype", 0)),
                    _FORMATS.get(desc.get("layout", ""), ND),
                    tuple(desc.get("shape", {}).get("dim", ())),
                )
                for desc in op.get("output_desc", ())
            )
            facts[name] = Facts(
                name,
                op.get("type", ""),
                op.get("id", 0),
                tuple(origin),
                formats,
                sum(op.get("is_input_const", ())),
                outputs,
            )
    return facts


def take_apart(program: StoredProgram, facts: dict[str, Facts]) -> Piece:
    """The units of a program, in the order in which they run."""
    try:
        graph = decode(GRAPH, program.graph)
    except WireError as error:
        raise damaged(f"its program cannot be read ({error})") from error
    small = {tensor.get("name", ""): tensor for tensor in graph.get("initializer", ())}
    large = {name: (dtype, dims, offset, size) for name, dtype, dims, offset, size in program.weights}
    units = [_unit(key, ops, facts) for key, ops in _groups(graph.get("node", []), facts)]
    ends = {value.get("name", "") for value in graph.get("output", ())}
    _draw_borders(units, ends)
    for unit in units:
        unit.shown = _shown(unit, small.keys() | large.keys())
    last = {name: index for index, unit in enumerate(units) for name in unit.taken}
    return Piece(program, units, small, large, last)


def _groups(ops: list[dict[str, Any]], facts: dict[str, Facts]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Neighbouring operators of one node. An alias goes with the node behind it, a handed-through result with the one before."""
    groups: list[tuple[str, list[dict[str, Any]]]] = []
    waiting: list[dict[str, Any]] = []
    for op in ops:
        key = op.get("doc_string") or op.get("name", "")
        if key not in facts and "/alias" in key:
            waiting.append(op)
        elif groups and not waiting and (key == groups[-1][0] or (key not in facts and _follows(op, groups[-1]))):
            groups[-1][1].append(op)
        else:
            groups.append((key, [*waiting, op]))
            waiting = []
    if waiting:
        groups.append((waiting[0].get("name", ""), waiting))
    return groups


def _follows(op: dict[str, Any], group: tuple[str, list[dict[str, Any]]]) -> bool:
    results = {name for previous in group[1] for name in previous.get("output", ())}
    return bool(results & set(op.get("input", ()))) or op.get("name", "").startswith(f"{group[0]}_")


def _unit(key: str, ops: list[dict[str, Any]], facts: dict[str, Facts]) -> Unit:
    return Unit(facts.get(key) or Facts(key, str(ops[-1].get("op_type", ""))), ops)


def _shown(unit: Unit, constants: set[str]) -> list[str]:
    """The inputs as the node has them; constants beyond its own were made from its attributes."""
    names = [name for name in unit.ops[0].get("input", ()) if name] if len(unit.ops) == 1 else unit.taken
    own = [name for name in names if name in constants][: unit.facts.constants]
    return [name for name in names if name not in constants or name in own]


def _draw_borders(units: list[Unit], ends: set[str]) -> None:
    """Find what each unit takes from outside, then what others take from it."""
    for unit in units:
        inside: set[str] = set()
        taken: dict[str, None] = {}
        for op in unit.ops:
            for name in (*op.get("input", ()), *sorted(captures(op))):
                if name and name not in inside:
                    taken[name] = None
            inside.update(op.get("output", ()))
        unit.taken = list(taken)
    needed = ends.union(*(unit.taken for unit in units))
    for unit in units:
        names = [name for op in unit.ops for name in op.get("output", ()) if name]
        single = len(unit.ops) == 1
        unit.made = [name for name in names if single or name in needed] or names[-1:]
