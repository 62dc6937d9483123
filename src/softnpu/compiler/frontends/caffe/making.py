"""What the functions of layers share: how they are entered into a table, and layers that need no function of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softnpu.compiler.frontends.caffe.net import Layer, Net, bad
from softnpu.graph.ir import Value

Maker = Callable[[Net, Layer], list[Value]]


def enters(table: dict[str, Maker]) -> Callable[..., Callable[[Maker], Maker]]:
    """A decorator that enters a function into a table under layer types."""

    def maker(*types: str) -> Callable[[Maker], Maker]:
        def enter(function: Maker) -> Maker:
            table.update(dict.fromkeys(types, function))
            return function

        return enter

    return maker


def simple(kind: str, **attrs: Any) -> Maker:
    """A layer with one bottom and no parameters."""

    def make(net: Net, layer: Layer) -> list[Value]:
        layer.count(1)
        return net.result(layer, kind, layer.bottoms, **attrs)

    return make


def copied(kind: str, message: str, **defaults: Any) -> Maker:
    """A layer with one bottom whose parameters are the attributes, under the same names."""

    def make(net: Net, layer: Layer) -> list[Value]:
        layer.count(1)
        params = layer.param(message)
        return net.result(
            layer, kind, layer.bottoms, **{name: params.get(name, value) for name, value in defaults.items()}
        )

    return make


def pair(layer: Layer, message: str, name: str, default: int, single: str | None = None) -> list[int]:
    """Height and width of a window parameter: `name`_h and `name`_w, or one or two numbers under its own name."""
    params, single = layer.param(message), single or name
    sides = [params.get(f"{name}_h"), params.get(f"{name}_w")]
    both = params.get(single, [])
    both = both if isinstance(both, list) else [both]
    known = [int(side) for side in sides if side is not None]
    if len(known) == 2 and not both:
        return known
    if known or len(both) > 2:
        raise bad(
            layer.name,
            f"gives [{single}] as {both} and by side as {sides}",
            "give one or two numbers, or height and width",
        )
    return [int(number) for number in both or [default]] * (2 if len(both) < 2 else 1)
