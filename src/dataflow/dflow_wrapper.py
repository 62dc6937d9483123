"""Codes and the tensor, under the names of the layer below the real face."""

from softnpu.flow.codes import (
    DATATYPE_INVALID,
    FAILED,
    INNER_ERROR,
    NOT_INIT,
    PARAM_INVALID,
    SHAPE_INVALID,
    SUBHEALTHY,
    SUCCESS,
)
from softnpu.flow.values.tensor import Tensor

__all__ = [
    "DATATYPE_INVALID",
    "FAILED",
    "INNER_ERROR",
    "NOT_INIT",
    "PARAM_INVALID",
    "SHAPE_INVALID",
    "SUBHEALTHY",
    "SUCCESS",
    "Tensor",
]
