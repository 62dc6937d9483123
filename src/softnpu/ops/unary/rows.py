"""Operators that are one ONNX operator on one input: a row each."""

from softnpu.ops.common.bodies import plain, unary
from softnpu.ops.common.numbers import DOUBLES
from softnpu.ops.common.schema import Row, Schema

ROWS = (
    Row(Schema("Abs"), unary("Abs"), "the value without its sign"),
    Row(Schema("Acos"), unary("Acos", DOUBLES), "inverse cosine"),
    Row(Schema("Acosh"), unary("Acosh", DOUBLES), "inverse hyperbolic cosine"),
    Row(Schema("Asin"), unary("Asin", DOUBLES), "inverse sine"),
    Row(Schema("Asinh"), unary("Asinh", DOUBLES), "inverse hyperbolic sine"),
    Row(Schema("Atan"), unary("Atan", DOUBLES), "inverse tangent"),
    Row(Schema("Atanh"), unary("Atanh", DOUBLES), "inverse hyperbolic tangent"),
    Row(Schema("Ceil"), unary("Ceil"), "the smallest integer that is not below x"),
    Row(Schema("Cos"), unary("Cos"), "cosine"),
    Row(Schema("Cosh"), unary("Cosh", DOUBLES), "hyperbolic cosine"),
    Row(
        Schema("Dropout", attrs={"dropout_ratio": 0.5, "scale_train": True}), plain("Identity"), "nothing at inference"
    ),
    Row(Schema("Erf"), unary("Erf", DOUBLES), "the error function"),
    Row(Schema("Floor"), unary("Floor"), "the largest integer that is not above x"),
    Row(Schema("Identity"), unary("Identity"), "x itself"),
    Row(Schema("Inv"), unary("Reciprocal"), "1 / x, by its old name"),
    Row(Schema("Neg"), unary("Neg"), "-x"),
    Row(Schema("Reciprocal"), unary("Reciprocal"), "1 / x"),
    Row(Schema("Rint"), unary("Round"), "the nearest integer, halves to the even one"),
    Row(Schema("Sign"), unary("Sign"), "-1, 0 or 1"),
    Row(Schema("Sin"), unary("Sin"), "sine"),
    Row(Schema("Sinh"), unary("Sinh", DOUBLES), "hyperbolic sine"),
    Row(Schema("Sqrt"), unary("Sqrt"), "the square root"),
    Row(Schema("Tan"), unary("Tan", DOUBLES), "tangent"),
)
