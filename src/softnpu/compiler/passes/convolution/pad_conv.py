"""PadConv2dFusionPass: zeros that are padded around a convolution's input become the convolution's own padding."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, array_of, attributes, op_type_of, origin, rewrite, text
from softnpu.graph.ir import Graph, Node, Value

NAME = "PadConv2dFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Absorb every Pad of constant zeros in the spatial dims that one convolution alone takes."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        if op_type_of(node) != "Pad" or edit.gone(node):
            continue
        conv = edit.only_user(node.output)
        if conv is None or op_type_of(conv) != "Conv" or conv.inputs[0] is not node.output:
            continue
        pads = _zeros(node)
        if pads is None:
            continue
        match += 1
        effect += _absorb(edit, node, conv, pads)
    edit.finish()
    return match, effect


def _zeros(node: Node) -> tuple[list[int], list[int]] | None:
    """What a Pad of constant zeros adds before and after every dim; None for any other Pad."""
    attrs = attributes(node)
    if text(attrs.get("mode", "constant")) != "constant":
        return None
    if len(node.inputs) == 1:  # before opset 11
        numbers, fill = list(attrs.get("pads", ())), float(attrs.get("value", 0.0))
    else:
        array = array_of(node.inputs[1])
        fill_input = node.inputs[2] if len(node.inputs) > 2 else None
        content = array_of(fill_input)
        if array is None or (fill_input is not None and content is None):
            return None
        numbers, fill = [int(number) for number in array.ravel()], 0.0 if content is None else float(content.ravel()[0])
    half = len(numbers) // 2
    before, after = numbers[:half], numbers[half:]
    if fill != 0.0 or min(numbers, default=0) < 0:
        return None
    return _spread(node, before, after)


def _spread(node: Node, before: list[int], after: list[int]) -> tuple[list[int], list[int]] | None:
    """Numbers for every dim where the Pad names the dims it works on."""
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    if axes is None:
        return before, after
    places, rank = array_of(axes), _rank(node.inputs[0])
    if places is None or rank is None:
        return None
    first, second = [0] * rank, [0] * rank
    for axis, low, high in zip(places.ravel(), before, after, strict=True):
        first[int(axis) % rank], second[int(axis) % rank] = low, high
    return first, second


def _rank(value: Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _absorb(edit: Edit, pad: Node, conv: Node, pads: tuple[list[int], list[int]]) -> bool:
    before, after = pads
    attrs = attributes(conv)
    dims = len(before) - 2
    own = list(attrs.get("pads") or [0] * (2 * dims))
    auto = text(attrs.get("auto_pad", "NOTSET"))
    if dims < 1 or any(before[:2] + after[:2]) or auto not in ("NOTSET", "VALID") or len(own) != 2 * dims:
        return False
    if auto == "VALID":
        own = [0] * (2 * dims)
    total = [low + more for low, more in zip(own, before[2:] + after[2:], strict=True)]
    edit.set_inputs(conv, [pad.inputs[0], *conv.inputs[1:]])
    edit.drop(pad)
    rewrite(conv, "Conv", {"pads": total, "auto_pad": None})
    pairs = [pad for index in range(dims) for pad in (total[index], total[index + dims])]
    conv.attrs["pads"] = [0, 0] * max(0, 2 - dims) + pairs
    conv.attrs.pop("auto_pad", None)
    conv.origin = list(dict.fromkeys([*origin(pad), *origin(conv)]))
    return True
