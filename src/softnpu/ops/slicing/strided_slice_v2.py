"""StridedSliceV2: a piece of x, from begin to end along axes with strides."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
SCHEMA = Schema(
    "StridedSliceV2", ("x", "begin", "end", "axes?", "strides?"), attrs=dict.fromkeys(_MASKS, 0), note="masks must be 0"
)


def lower(b: Builder, n: Site) -> str:
    for mask in _MASKS:
        if int(n.attr(mask, 0)):
            raise OpError(
                f"StridedSliceV2 {n.name!r} has {mask} {n.attr(mask)}; only 0 is supported, use StridedSlice for masks"
            )
    if b.opset < 10:
        raise OpError(f"StridedSliceV2 {n.name!r} needs ONNX opset 10 or newer; export the model with a newer opset")
    return str(b.op("Slice", *n.inputs))
