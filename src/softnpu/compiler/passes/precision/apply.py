"""Precision modes: which nodes work in float16 or bfloat16 instead of float32, with the Casts that this takes.

Tensors and constants get the lower type for real. Inside, a node computes in float32 and rounds its results, as the device
does: the engines' own float16 is not used, since onnxruntime on a CPU replaces it by float32 without any rounding. The
model's inputs and outputs keep their types. Nothing happens unless the user asks for a mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softnpu import ops
from softnpu.base.dtypes import DType, to_onnx
from softnpu.compiler.lowering.lower import Lowered, captures, lower_node
from softnpu.compiler.options.rows import Options as AtcOptions
from softnpu.compiler.passes.edit import op_type_of, present_ops
from softnpu.compiler.passes.precision.files import (
    CUBE,
    Custom,
    Keep,
    MixLists,
    invalid,
    read_customize_dtypes,
    read_keep_dtype,
    read_modify_mixlist,
)
from softnpu.graph.ir import Constant, Graph, Node, Source, Value
from softnpu.graph.onnx_def import TENSOR_KIND, make_attribute, make_tensor

FLOAT, HALF, BF16 = DType.FLOAT, DType.FLOAT16, DType.BF16
Types = dict[str, int]  # of values, by name
HALF_MAX = 65504.0
_IS_NAN_OPSET = 9

# Name of a mode (both spellings) → which nodes, in which type.
MODES: dict[str, tuple[str, int]] = {
    "force_fp16": ("all", HALF), "fp16": ("all", HALF),
    "force_fp32": ("origin", HALF), "must_keep_origin_dtype": ("origin", HALF), "origin": ("origin", HALF),
    "cube_fp16in_fp32out": ("cube_in", HALF),
    "allow_fp32_to_fp16": ("lacking", HALF), "allow_fp32_to_bf16": ("lacking", BF16),
    "allow_mix_precision": ("mixed", HALF), "allow_mix_precision_fp16": ("mixed", HALF), "mixed_float16": ("mixed", HALF),
    "allow_mix_precision_bf16": ("mixed", BF16), "mixed_bfloat16": ("mixed", BF16),
}  # fmt: skip
_STAY = frozenset(
    [
        "Data",
        "AippData",
        "Const",
        "NetOutput",
        "Cast",
        "CastLike",
        "Resize",
        "ResizeNearestNeighborV2",
        "Upsample",
        "Range",
        "If",
        "Loop",
        "Scan",
        "While",
        "Case",
        "NonMaxSuppressionV6",
        "NonMaxSuppression",
        "Quantize",
        "AscendQuant",
        "AscendDequant",
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "StatelessBernoulliV2",
        "Multinomial",
    ]
)
_STAY_PARTS = ("Sequence", "Random", "Optional")
_NO_CUBE_FP32 = frozenset({"310", "310P", "910"})  # families whose cube multiplies float16 only
_ANY_TYPE = frozenset({"Shape", "Size"})  # look at dims only


@dataclass(frozen=True)
class Options:
    """What stands beside the mode. `cube_fp32` says whether the chip's cube multiplies float32 itself."""

    keep: Keep = field(default_factory=Keep)
    lists: MixLists = field(default_factory=MixLists)
    custom: Custom = field(default_factory=Custom)
    clip: bool = True  # weights are limited to ±65504 before they become float16
    cube_fp32: bool = True
    saturate: bool = False  # float16 has neither infinity nor NaN on the chip: they become ±65504 and 0


def is_mixed(mode: str) -> bool:
    """Whether a mode uses the white and black lists."""
    return MODES.get(mode, ("", 0))[0] == "mixed"


def apply(graph: Graph, mode: str = "", options: Options | None = None) -> int:
    """Change the precision of a graph as a mode and the user's files say; returns how many nodes work in another one."""
    options = options or Options()
    if mode and mode not in MODES:
        known = ", ".join(MODES)
        option = "precision_mode_v2" if "hif8" in mode else "precision_mode"
        raise invalid(option, mode, f"this version knows {known}", "use one of these")
    if not mode and not options.custom.names and not options.custom.types:
        return 0
    return _Work(graph, mode, options).run()


def apply_options(graph: Graph, options: AtcOptions) -> int:
    """Do what the options of a conversion say; a mode that the user did not give is none."""
    mode_option = next((name for name in ("precision_mode_v2", "precision_mode") if options.given(name)), "")
    mode = str(getattr(options, mode_option)) if mode_option else ""
    keep = read_keep_dtype(Path(options.keep_dtype)) if options.keep_dtype else Keep()
    lists = read_modify_mixlist(Path(options.modify_mixlist), is_mixed(mode)) if options.modify_mixlist else MixLists()
    custom = read_customize_dtypes(Path(options.customize_dtypes)) if options.customize_dtypes else Custom()
    cube_fp32 = options.chip.get("family", "") not in _NO_CUBE_FP32
    saturate = not options.chip.get("inf_nan", True)
    return apply(graph, mode, Options(keep, lists, custom, bool(options.is_weight_clip), cube_fp32, saturate))


class _Work:
    def __init__(self, graph: Graph, mode: str, options: Options) -> None:
        self.graph = graph
        self.choice, self.target = MODES.get(mode, ("none", HALF))
        self.options = options
        self.first = {id(value): value.dtype for value in graph.values()}  # types before anything was changed
        self.casts: dict[tuple[int, int], Value] = {}
        self.nodes: list[Node] = []

    def run(self) -> int:
        """Go through the nodes in order; returns how many changed."""
        changed = sum(self._node(node) for node in self.graph.nodes)
        for output in self.graph.outputs:
            output.value = self._cast(output.value, self._origin(output.value))
        self.graph.nodes = self.nodes
        self.graph.sweep()
        return changed

    def _origin(self, value: Value) -> int:
        return self.first.get(id(value), value.dtype)

    def _node(self, node: Node) -> bool:
        """Put a node behind the ones there are, in the precision that is chosen for it."""
        custom = self._custom(node)
        inputs, outputs = self._customised(node, *custom) if custom is not None else self._chosen(node)
        if (inputs or outputs) and self._retype(node, inputs, outputs):
            return True
        self._keep_types(node)
        return False

    # ---- which -------------------------------------------------------------------------------------------------------

    def _custom(self, node: Node) -> tuple[list[int], list[int]] | None:
        custom = self.options.custom
        for name in (node.name, *node.origin):
            if name in custom.names:
                return custom.names[name]
        return custom.types.get(node.type)

    def _customised(self, node: Node, inputs: list[int], outputs: list[int]) -> tuple[Types, Types]:
        """The types that the user gave."""
        if len(inputs) > len(node.inputs) or len(outputs) > len(node.outputs):
            counts = f"{len(node.inputs)} inputs and {len(node.outputs)} outputs"
            raise invalid("customize_dtypes", node.name, f"the operator has {counts}; more types are given")
        return self._wishes(node, node.inputs, inputs), self._wishes(node, node.outputs, outputs)

    def _wishes(self, node: Node, values: Sequence[Value | None], dtypes: list[int]) -> Types:
        """The types given for some values, where they differ from what the values have."""
        wanted = {}
        for value, dtype in zip(values, dtypes, strict=False):
            if value is None or self._origin(value) == dtype:
                continue
            if self._origin(value) != FLOAT or dtype not in (HALF, BF16):
                reason = f"{value.name} of type {self._origin(value)} cannot become type {dtype}; float32 can become float16 or bfloat16"
                raise invalid("customize_dtypes", node.name, reason)
            wanted[value.name] = dtype
        return wanted

    def _chosen(self, node: Node) -> tuple[Types, Types]:
        """What the mode makes of a node: types of inputs and of outputs, where they change."""
        how = self._choose(node)
        taken = node.inputs[:2] if how == "cube_in" else node.inputs
        inputs = {value.name: self.target for value in taken if value is not None and self._origin(value) == FLOAT}
        outputs = {value.name: self.target for value in node.outputs if self._origin(value) == FLOAT}
        return (inputs if how else {}), (outputs if how == "lower" else {})

    def _choose(self, node: Node) -> str:
        """`lower` (all of it), `cube_in` (only what it multiplies) or "" (as it is)."""
        floats = [value for value in node.inputs if value is not None and self._origin(value) == FLOAT]
        if not floats or self._stays(node):
            return ""
        cube = node.type in CUBE
        if self.choice == "cube_in" or (self.choice == "origin" and not self.options.cube_fp32):
            return "cube_in" if cube else ""
        if self.choice == "all":
            return "lower"
        if self.choice == "lacking":
            return "lower" if cube and not self.options.cube_fp32 else ""
        if self.choice != "mixed" or node.type in self.options.lists.black:
            return ""
        moving = [value for value in floats if value.const is None]
        follows = bool(moving) and all(value.dtype == self.target for value in moving)
        return "lower" if node.type in self.options.lists.white or follows else ""

    def _stays(self, node: Node) -> bool:
        kinds = (node.type, op_type_of(node))
        keep = self.options.keep
        if any(kind in _STAY or kind in _ANY_TYPE or any(part in kind for part in _STAY_PARTS) for kind in kinds):
            return True
        return node.type in keep.types or not keep.names.isdisjoint((node.name, *node.origin))

    # ---- how ---------------------------------------------------------------------------------------------------------

    def _retype(self, node: Node, inputs: Types, outputs: Types) -> bool:
        """Let a node take and make these types; False where it has no operators that could be put between Casts."""
        operators = self._operators(node)
        if operators is None or any(captures(op) for op in operators):
            return False
        names = {name: self.graph.unique(f"{name}/float32") for name in (*inputs, *outputs)}
        taken = [
            None if value is None else self._cast(value, inputs.get(value.name, self._origin(value)))
            for value in node.inputs
        ]
        pairs = [(old, new) for old, new in zip(node.inputs, taken, strict=True) if old is not None and new is not None]
        new_ops = list(
            {
                old.name: _cast_op(names[old.name], new.name, names[old.name], FLOAT)
                for old, new in pairs
                if old.name in inputs
            }.values()
        )
        present = {old.name: new.name for old, new in pairs} | names
        new_ops += [
            {**op, **{key: [present.get(tensor, tensor) for tensor in op.get(key, ())] for key in ("input", "output")}}
            for op in operators
        ]
        for name, dtype in outputs.items():
            new_ops += self._rounded(names[name], name, dtype)
        shown = [value.name for value in node.outputs]
        if node.source is not None:  # ONNX may leave optional outputs out
            shown = [value.name if old else "" for old, value in zip(node.source.outputs, node.outputs, strict=True)]
        node.inputs = taken
        node.source = Source(new_ops, [value.name if value is not None else "" for value in taken], shown)
        for value in node.outputs:
            value.dtype = outputs.get(value.name, value.dtype)
        self.nodes.append(node)
        return True

    def _rounded(self, source: str, target: str, dtype: int) -> list[dict[str, Any]]:
        """Cast to a lower type, as the chip does it."""
        opset = self.graph.opsets.get("", ops.NATIVE_OPSET)
        if not self.options.saturate or dtype != HALF or opset < _IS_NAN_OPSET:
            return [_cast_op(f"{source}/cast", source, target, dtype)]
        builder = ops.Builder(opset, self.graph.unique)
        builder.prefix = source
        zero = builder.const(np.array(0, np.float32))
        number = builder.op("Where", builder.op("IsNaN", source), zero, source)
        limited = builder.clip(number, -HALF_MAX, HALF_MAX)
        operators = [_constant_op(name, Constant.of(array)) for name, array in builder.constants.items()]
        operators += [
            {
                "input": list(call.inputs),
                "output": list(call.outputs),
                "name": call.outputs[0],
                "op_type": call.type,
                "attribute": [make_attribute(key, value) for key, value in call.attrs.items()],
            }
            for call in builder.calls
        ]
        return [*operators, _cast_op(f"{source}/cast", limited, target, dtype)]

    def _operators(self, node: Node) -> list[dict[str, Any]] | None:
        """The ONNX operators of a node with the names its values have now; None where it has none."""
        if node.source is not None:
            return present_ops(node)
        inputs = [
            None if value is None else Value(value.name, self._origin(value), value.shape, value.format, value.producer)
            for value in node.inputs
        ]
        shadow = Node(node.name, node.type, list(inputs), node.outputs, node.attrs)
        into = Lowered()
        lower_node(shadow, self.graph.opsets.get("", ops.NATIVE_OPSET), self.graph.unique, into)
        if into.host:
            return None
        for domain, version in into.domains.items():
            self.graph.opsets.setdefault(domain, version)
        return [_constant_op(name, constant) for name, constant in into.constants.items()] + into.nodes

    def _keep_types(self, node: Node) -> None:
        """Put a node down as it is, its inputs in the types they had."""
        if node.type not in _ANY_TYPE and op_type_of(node) not in _ANY_TYPE:
            named = set().union(*(captures(op) for op in node.source.ops)) if node.source is not None else set()
            node.inputs = [None if value is None else self._original(value, named) for value in node.inputs]
        self.nodes.append(node)

    def _original(self, value: Value, named: set[str]) -> Value:
        """A value in the type it had. A body inside an operator knows it by name, so the name goes over to the Cast."""
        original = self._cast(value, self._origin(value))
        if original is not value and value.name in named:
            value.name, original.name = original.name, value.name
        return original

    # ---- casts -------------------------------------------------------------------------------------------------------

    def _cast(self, value: Value, dtype: int) -> Value:
        """A value in another type: a converted constant, or the result of a Cast that all its users share."""
        if value.dtype == dtype:
            return value
        key = (id(value), dtype)
        if key not in self.casts:
            constant = value.const
            if constant is not None:
                content = convert(constant, dtype, self.options.clip)
                node = Node(self.graph.unique(f"{value.name}/cast"), "Const", data=content)
            else:
                node = Node(
                    self.graph.unique(f"trans_Cast_{len(self.casts)}"),
                    "Cast",
                    [value],
                    attrs={"dst_type": dtype},
                    input_names=["x"],
                )
            converted = Value(node.name, dtype, value.shape, value.format, node)
            node.outputs = [converted]
            if constant is None and self.options.saturate and dtype == HALF and value.dtype == FLOAT:
                node.source = Source(self._rounded(value.name, converted.name, dtype), [value.name], [converted.name])
            self.nodes.append(node)
            self.first[id(converted)] = self._origin(value)
            self.casts[key] = converted
        return self.casts[key]


def _cast_op(name: str, source: str, target: str, dtype: int) -> dict[str, Any]:
    attribute = [make_attribute("to", to_onnx(dtype))]
    return {"input": [source], "output": [target], "name": name, "op_type": "Cast", "attribute": attribute}


def _constant_op(name: str, constant: Constant) -> dict[str, Any]:
    attribute = [{"name": "value", "t": make_tensor("", constant), "type": TENSOR_KIND}]
    return {"input": [], "output": [name], "name": name, "op_type": "Constant", "attribute": attribute}


def convert(constant: Constant, dtype: int, clip: bool = True) -> Constant:
    """A float32 constant in float16 or bfloat16; `clip` limits it to the range of float16 first."""
    array = constant.array()
    if dtype == BF16:
        bits = array.view(np.uint32)
        nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        no_number = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        quiet = (bits >> np.uint32(16)) | np.uint32(0x40)  # rounding must not make an infinity of it
        return Constant(BF16, constant.shape, np.where(no_number, quiet, nearest).astype(np.uint16).tobytes())
    if clip:
        array = np.clip(array, -HALF_MAX, HALF_MAX)  # infinities too; what is no number stays
    with np.errstate(over="ignore"):
        return Constant.of(array.astype(np.float16))
