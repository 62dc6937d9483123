"""One operator of a GraphDef as the tables see it: its attributes as Python values, its inputs as values of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.tensorflow.proto import dtype_of, shape_of
from softnpu.graph.ir import Shape, Value


class Call:
    """A NodeDef with the values it takes."""

    def __init__(
        self, node: dict[str, Any], inputs: list[Value], const: Callable[[str, np.ndarray[Any, Any]], Value]
    ) -> None:
        self.node = node
        self.name: str = node.get("name", "")
        self.op: str = node.get("op", "")
        self.inputs = inputs
        self._const = const

    def const(self, suffix: str, array: np.ndarray[Any, Any]) -> Value:
        """A constant that TensorFlow has as an attribute and CANN as an input."""
        return self._const(f"{self.name}/{suffix}", array)

    def take(self, *places: int) -> list[Value | None]:
        """Inputs in another order."""
        return [self.input(index) for index in places]

    def input(self, index: int) -> Value:
        """An input that must be there."""
        if index >= len(self.inputs):
            raise self.wrong(f"has {len(self.inputs)} inputs and needs at least {index + 1}")
        return self.inputs[index]

    def has(self, name: str) -> bool:
        """Whether an attribute is there."""
        return name in self.node.get("attr", {})

    def attr(self, name: str, kind: str, default: Any) -> Any:
        """An attribute: kind b, i, f, s (text), type (aclDataType), ints; None as the default means that it must be there."""
        message = self.node.get("attr", {}).get(name)
        if message is None:
            if default is None:
                raise self.wrong(f"lacks the attribute [{name}]")
            return default
        if kind == "ints":
            return [int(number) for number in message.get("list", {}).get("i", ())]
        if kind == "s":
            return self._text(name, message.get("s", b""))
        if kind == "type":
            return self._dtype(name, message.get("type", 0))
        return {"b": bool, "i": int, "f": float}[kind](message.get(kind, 0))

    def shape(self, name: str) -> Shape | None:
        """A shape; None where it is absent or of unknown rank."""
        message = self.node.get("attr", {}).get(name, {})
        return shape_of(message["shape"]) if "shape" in message else None

    def wrong(self, what: str) -> AtcError:
        """An error about this operator."""
        return AtcError(
            "E14001",
            f"The operator {self.op} [{self.name}] {what}",
            "the graph is damaged or unusual",
            "export the model again",
        )

    def _text(self, name: str, raw: Any) -> str:
        try:
            return str(bytes(raw), "utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(f"has an attribute [{name}] that is no text") from error

    def _dtype(self, name: str, number: int) -> int:
        try:
            return dtype_of(number)
        except ValueError as error:
            raise self.wrong(f"has the attribute [{name}]: {error}") from error
