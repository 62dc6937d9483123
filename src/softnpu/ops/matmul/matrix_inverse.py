"""MatrixInverse: the inverse of every matrix, of its conjugate transpose where asked."""

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("MatrixInverse", attrs={"adjoint": False})


def compute(n: Site, x: Array) -> tuple[Array, ...]:
    if n.attr("adjoint", False):
        x = np.conj(np.swapaxes(x, -1, -2))
    try:
        return (np.linalg.inv(x).astype(x.dtype, copy=False),)
    except np.linalg.LinAlgError as error:
        raise OpError(f"MatrixInverse {n.name!r} got a matrix that has no inverse; check the data") from error


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    shape = n.shape()
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise OpError(f"MatrixInverse {n.name!r} has an input of shape {list(shape)}; the last two dims must be equal")
    return [(n.dtype(), shape)]
