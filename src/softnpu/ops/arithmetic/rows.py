"""Operators that are one ONNX operator on two inputs: a row each."""

from softnpu.ops.common.bodies import binary
from softnpu.ops.common.numbers import SHORTS, SMALL
from softnpu.ops.common.schema import Row, Schema

PAIR = ("x1", "x2")

ROWS = (
    Row(Schema("Add", PAIR), binary("Add"), "x1 + x2"),
    Row(Schema("AddV2", PAIR), binary("Add"), "x1 + x2, by TensorFlow's later name"),
    Row(Schema("Div", PAIR), binary("Div"), "x1 / x2; integers truncate"),
    Row(Schema("Maximum", PAIR), binary("Max", SHORTS), "the larger of x1 and x2"),
    Row(Schema("Minimum", PAIR), binary("Min", SHORTS), "the smaller of x1 and x2"),
    Row(Schema("Mod", PAIR), binary("Mod", fmod=1), "the rest of a division, with the sign of x1"),
    Row(Schema("Mul", PAIR), binary("Mul"), "x1 * x2"),
    Row(Schema("Pow", PAIR), binary("Pow", SMALL), "x1 to the power of x2"),
    Row(Schema("RealDiv", PAIR), binary("Div"), "x1 / x2"),
    Row(Schema("Sub", PAIR), binary("Sub"), "x1 - x2"),
)
