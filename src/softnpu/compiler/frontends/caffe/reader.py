"""From a prototxt and a caffemodel to a graph.

Blobs have names that layers may use again (in-place layers do); `_Flow` keeps which value a name stands for at each place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.caffe import layers, layers_more
from softnpu.compiler.frontends.caffe.net import Layer, Net, bad
from softnpu.compiler.frontends.caffe.proto import NET, OLD_NET
from softnpu.compiler.frontends.caffe.weights import load
from softnpu.graph.ir import Graph, Output, Shape, Value
from softnpu.graph.text import TextError, parse

FRAMEWORK = 0
MAKERS = {**layers.MAKERS, **layers_more.MAKERS}  # by layer type
_TEST = 1
_TRAINING = frozenset(
    {
        "Accuracy", "ContrastiveLoss", "EuclideanLoss", "HDF5Output", "HingeLoss", "InfogainLoss", "MultinomialLogisticLoss",
        "SigmoidCrossEntropyLoss", "Silence", "SoftmaxWithLoss",
    }
)  # fmt: skip


def read(
    prototxt: Path,
    caffemodel: Path,
    name: str,
    shapes: Mapping[str, Shape] | None = None,
    types: Mapping[str, str] | None = None,
) -> tuple[Graph, list[str]]:
    """The graph of a net, and notes on what was left out; `shapes` replaces shapes of inputs, `types` names of layer types."""
    net = _parse(prototxt)
    notes: list[str] = []
    layers = [
        {**layer, "type": (types or {}).get(layer.get("type", ""), layer.get("type", ""))}
        for layer in _wanted(net, notes)
    ]
    _refuse(layers)
    graph = Graph(name, framework=FRAMEWORK)
    flow = _Flow(Net(graph, [layer.get("name", "") for layer in layers if layer.get("type") not in _INPUTS]))
    _net_inputs(net, flow, dict(shapes or {}))
    weights = load(caffemodel)
    for raw in layers:
        if raw.get("type") in _INPUTS:
            _input_layer(raw, flow, dict(shapes or {}))
        else:
            flow.run(raw, weights.get(raw.get("name", "")))
    graph.outputs = flow.outputs()
    graph.tensors = {top: entry.value for top, entry in flow.blobs.items()}
    return graph, notes


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise AtcError(
            "E10410",
            f"The file [{path}] cannot be read: {error.strerror}",
            "it does not exist or is not readable",
            "check the value of --model",
        ) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"it is not text: {error}") from error
    try:
        if parse(OLD_NET, text, skip_unknown=True).get("layers"):
            raise AtcError(
                "E11021",
                f"The model file [{path}] uses the old field [layers]",
                "the prototxt was written for an old version of Caffe",
                "bring it up to date with Caffe's upgrade_net_proto_text",
            )
        return parse(NET, text)
    except TextError as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, why: str) -> AtcError:
    return AtcError(
        "E11022",
        f"The model file [{path}] cannot be parsed: {why}",
        "it is no valid prototxt",
        "correct it at the place that is named",
    )


def read_type_names(path: Path) -> dict[str, str]:
    """The lines `CustomType:KnownType` of --op_name_map."""
    names: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        custom, colon, known = (part.strip() for part in line.partition(":"))
        if not colon or not custom or known not in MAKERS:
            raise AtcError(
                "E10003",
                f"Value [{line.strip()}] for parameter [op_name_map] is invalid. Reason: line {number} must be CustomType:KnownType with a layer type that is supported",
                "the type behind the colon is misspelt or not supported",
                f"use one of: {', '.join(sorted(MAKERS))}",
            )
        names[custom] = known
    return names


# ---- which layers ----------------------------------------------------------------------------------------------------


def _wanted(net: dict[str, Any], notes: list[str]) -> Iterator[dict[str, Any]]:
    """The layers that an inference runs."""
    stages = set(net.get("state", {}).get("stage", ()))
    level = net.get("state", {}).get("level", 0)
    for layer in net.get("layer", ()):
        what = f"layer {layer.get('name', '')!r} of type {layer.get('type', '')}"
        if not _included(layer, level, stages):
            notes.append(f"{what} is not for the TEST phase and was left out")
        elif layer.get("type") in _TRAINING:
            notes.append(f"{what} serves training only and was left out")
        else:
            yield layer


def _included(layer: dict[str, Any], level: int, stages: set[str]) -> bool:
    if layer.get("phase", _TEST) != _TEST:
        return False
    rules = layer.get("include", [])
    if rules:
        return any(_meets(rule, level, stages) for rule in rules)
    return not any(_meets(rule, level, stages) for rule in layer.get("exclude", ()))


def _meets(rule: dict[str, Any], level: int, stages: set[str]) -> bool:
    if (
        rule.get("phase", _TEST) != _TEST
        or level < rule.get("min_level", level)
        or level > rule.get("max_level", level)
    ):
        return False
    return stages.issuperset(rule.get("stage", ())) and stages.isdisjoint(rule.get("not_stage", ()))


def _refuse(layers: list[dict[str, Any]]) -> None:
    """One error for everything that cannot be converted."""
    unknown = [layer for layer in layers if layer.get("type") not in MAKERS and layer.get("type") not in _INPUTS]
    if not unknown:
        return
    listed = ", ".join(f"{layer.get('name', '')} ({layer.get('type', '')})" for layer in unknown)
    if all(layer.get("type") == "DetectionOutput" for layer in unknown):
        raise AtcError(
            "E11008",
            f"The operator type [DetectionOutput] is not supported: {listed}",
            "the layer must say which network it belongs to",
            "rename it to SSDDetectionOutput and use ssddetectionoutput_param",
        )
    raise AtcError(
        "E11009",
        f"No parser is registered for {len(unknown)} layers: {listed}",
        "these layer types are misspelt or not supported",
        "replace them, or cut the network before them",
    )


# ---- inputs ----------------------------------------------------------------------------------------------------------

_INPUTS = frozenset({"Input", "DummyData"})


def _net_inputs(net: dict[str, Any], flow: _Flow, shapes: dict[str, Shape]) -> None:
    """Inputs that are named outside of layers."""
    names, dims, listed = net.get("input", []), net.get("input_dim", []), net.get("input_shape", [])
    if dims and listed:
        raise _two_forms("[input_dim] and [input_shape]")
    if names and any(layer.get("type") == "Input" for layer in net.get("layer", ())):
        raise _two_forms("the field [input] and layers of type [Input]")
    declared: list[Shape] = [tuple(entry.get("dim", ())) for entry in listed] or [
        tuple(dims[at : at + 4]) for at in range(0, len(dims), 4)
    ]
    if declared and (len(declared) != len(names) or len(dims) % 4):
        raise AtcError(
            "E11022",
            f"The model has {len(names)} inputs and {len(dims) if dims else len(listed)} {'input_dim' if dims else 'input_shape'}",
            "every input needs one input_shape, or four input_dim",
            "correct the head of the prototxt",
        )
    for index, name in enumerate(names):
        flow.enter(name, shapes.get(name, declared[index] if declared else None), name)


def _two_forms(both: str) -> AtcError:
    return AtcError(
        "E11001",
        f"The Caffe model gives its inputs in two ways: {both}",
        "only one form may be used",
        "keep one of them in the prototxt",
    )


def _input_layer(raw: dict[str, Any], flow: _Flow, shapes: dict[str, Shape]) -> None:
    """The tops of an Input or DummyData layer."""
    tops, params = raw.get("top", []), raw.get("input_param", raw.get("dummy_data_param", {}))
    declared: list[Shape] = [tuple(entry.get("dim", ())) for entry in params.get("shape", ())]
    if not declared and "num" in params:
        sides = [params.get(side, [1]) for side in ("num", "channels", "height", "width")]
        many = max(len(side) for side in sides)
        declared = [tuple(side[min(index, len(side) - 1)] for side in sides) for index in range(many)]
    if len(declared) not in (0, 1, len(tops)):
        raise bad(
            raw.get("name", ""), f"has {len(tops)} tops and {len(declared)} shapes", "give one shape, or one a top"
        )
    for index, top in enumerate(tops):
        shape = declared[index % len(declared)] if declared else None
        flow.enter(top, shapes.get(top, shape), raw.get("name", top))


# ---- from layer to layer ---------------------------------------------------------------------------------------------


@dataclass
class _Entry:
    """What a blob name stands for: the value, who made it, and whether somebody took it."""

    value: Value
    layer: str
    index: int
    taken: bool = False


@dataclass
class _Flow:
    """Blobs by name while layers are read one after the other."""

    net: Net
    blobs: dict[str, _Entry] = field(default_factory=dict)

    def enter(self, name: str, shape: Shape | None, layer: str) -> None:
        """An input of the net."""
        if not shape:
            raise AtcError(
                "E10001",
                f"The input [{name}] has no shape",
                "neither the prototxt nor the command line gives one",
                f'add input_shape to the prototxt, or --input_shape="{name}:..."',
            )
        if any(dim == 0 or dim < -1 for dim in shape):
            raise AtcError(
                "E10011", f"The input [{name}] has the shape {list(shape)}", "a dim is not positive", "correct it"
            )
        if name in self.blobs:
            raise bad(layer, f"names the input [{name}] that is there already", "use every input name once")
        self.blobs[name] = _Entry(self.net.data(name, shape), layer, 0)

    def run(self, raw: dict[str, Any], blobs: Any) -> None:
        """Make the nodes of a layer and enter its tops."""
        name, kind, tops = raw.get("name", ""), raw.get("type", ""), raw.get("top", [])
        layer = Layer(name, kind, [self._take(bottom, name) for bottom in raw.get("bottom", ())], raw, blobs)
        values = MAKERS[kind](self.net, layer)
        if len(tops) > len(values) or not tops:
            raise bad(
                name,
                f"of type [{kind}] has {len(tops)} tops; it makes {len(values)}",
                "correct its tops in the prototxt",
            )
        for index, (top, value) in enumerate(zip(tops, values, strict=False)):
            before = self.blobs.pop(top, None)  # so that names stand in the order in which they were made last
            if before is not None and not before.taken:
                raise bad(
                    name,
                    f"makes the top [{top}] that layer [{before.layer}] made already",
                    "give one of them another name",
                )
            self.blobs[top] = _Entry(value, name, index)

    def _take(self, bottom: str, layer: str) -> Value:
        entry = self.blobs.get(bottom)
        if entry is None:
            raise AtcError(
                "E11012",
                f"The bottom [{bottom}] of the layer [{layer}] is unknown",
                "no input or layer before it has a top of that name",
                "correct the name, or the order of the layers",
            )
        entry.taken = True
        return entry.value

    def outputs(self) -> list[Output]:
        """The tops that nobody took."""
        outputs = [
            Output(blob.value, f"{blob.layer}:{blob.index}:{top}")
            for top, blob in self.blobs.items()
            if not blob.taken and blob.value.producer is not None and blob.value.producer.type != "Data"
        ]
        if not outputs:
            raise AtcError(
                "E11022",
                "The model has no output",
                "no layer makes a result that is not taken by another",
                "check the prototxt",
            )
        return outputs
