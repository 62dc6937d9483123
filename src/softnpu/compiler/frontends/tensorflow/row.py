"""What a row of the tables says about an operator of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softnpu.compiler.frontends.tensorflow.call import Call
from softnpu.graph.ir import Value

Attrs = Callable[[Call], dict[str, Any]]
Inputs = Callable[[Call], "list[Value | None]"]


def no_attrs(call: Call) -> dict[str, Any]:
    """An operator without attributes."""
    return {}


def same_inputs(call: Call) -> list[Value | None]:
    """An operator whose inputs stand in TensorFlow's order."""
    return list(call.inputs)


def one_output(call: Call) -> int:
    """An operator with one result."""
    return 1


@dataclass(frozen=True)
class Row:
    """CANN's type, how its attributes and inputs come about, and how many results count as results of the model."""

    type: str
    attrs: Attrs = no_attrs
    inputs: Inputs = same_inputs
    outputs: Callable[[Call], int] = one_output
    needs: int = 1  # inputs that must be there
    fixed: dict[str, Any] = field(default_factory=dict)  # attributes that are always the same


def mapped(**names: tuple[str, str, Any]) -> Attrs:
    """Attributes that only change their names: CANN's name = (TensorFlow's name, kind, default)."""

    def attrs(call: Call) -> dict[str, Any]:
        return {name: call.attr(*origin) for name, origin in names.items()}

    return attrs
