"""Activations that are one ONNX operator: a row each."""

from softnpu.ops.common.bodies import plain, unary
from softnpu.ops.common.numbers import DOUBLES
from softnpu.ops.common.schema import Row, Schema

ROWS = (
    Row(Schema("BNLL"), plain("Softplus"), "log(1 + e^x), Caffe's binomial normal log likelihood"),
    Row(Schema("Selu"), unary("Selu", DOUBLES), "the scaled exponential unit with its fixed constants"),
    Row(Schema("Sigmoid"), unary("Sigmoid"), "1 / (1 + e^-x)"),
    Row(Schema("Softplus"), unary("Softplus", DOUBLES), "log(1 + e^x)"),
    Row(Schema("Softsign"), unary("Softsign", DOUBLES), "x / (1 + |x|)"),
    Row(Schema("Tanh"), unary("Tanh"), "hyperbolic tangent"),
)
