"""Comparisons, truth values and bits that are one ONNX operator: a row each."""

from softnpu.ops.common.bodies import binary, unary
from softnpu.ops.common.schema import Row, Schema
from softnpu.ops.logic._bits import bitwise, shift

PAIR = ("x1", "x2")

ROWS = (
    Row(Schema("BitwiseAnd", PAIR), bitwise("BitwiseAnd"), "bits that are set in both inputs"),
    Row(Schema("BitwiseOr", PAIR), bitwise("BitwiseOr"), "bits that are set in one input at least"),
    Row(Schema("BitwiseXor", PAIR), bitwise("BitwiseXor"), "bits that are set in one input only"),
    Row(Schema("Equal", PAIR), binary("Equal"), "whether x1 and x2 are equal"),
    Row(Schema("Greater", PAIR), binary("Greater"), "whether x1 > x2"),
    Row(Schema("Invert"), bitwise("BitwiseNot"), "every bit flipped"),
    Row(Schema("IsInf"), unary("IsInf"), "whether an element is infinite"),
    Row(Schema("IsNan"), unary("IsNaN"), "whether an element is not a number"),
    Row(Schema("LeftShift", ("x", "y"), ("z",)), shift("LEFT"), "the bits of x moved up by y"),
    Row(Schema("Less", PAIR), binary("Less"), "whether x1 < x2"),
    Row(Schema("LogicalAnd", PAIR), binary("And"), "x1 and x2"),
    Row(Schema("LogicalNot"), unary("Not"), "not x"),
    Row(Schema("LogicalOr", PAIR), binary("Or"), "x1 or x2"),
    Row(Schema("RightShift", ("x", "y"), ("z",)), shift("RIGHT"), "the bits of x moved down by y; the sign stays"),
)
