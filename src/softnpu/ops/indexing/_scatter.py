"""The body of the operators that write slices into a tensor."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Lower

_SINCE = {"none": 11, "add": 16, "mul": 16, "max": 18, "min": 18}


def scatter_nd(reduction: str) -> Lower:
    """Input 0 with the slices named by input 1 replaced by (or combined with) input 2."""

    def lower(b: Builder, n: Site) -> str:
        if b.opset < _SINCE[reduction]:
            raise OpError(
                f"{n.type} {n.name!r} needs ONNX opset {_SINCE[reduction]} or newer; export the model with a newer opset"
            )
        places = n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64)
        return str(
            b.op("ScatterND", n.input(0), places, n.input(2), reduction=None if reduction == "none" else reduction)
        )

    return lower
