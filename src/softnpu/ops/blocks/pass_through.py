"""PassThrough: darknet's reorg, which moves blocks of pixels into channels (or back with `reverse`)."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.inputs import ranks
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "PassThrough",
    attrs={"stride": 2, "reverse": False},
    note="the order of the channels is darknet's, which YOLO v2 is trained with",
)


def lower(b: Builder, n: Site) -> str:
    ranks(n, 4)
    batch, channels, height, width = n.shape()
    stride = int(n.attr("stride", 2))
    block = stride * stride
    if n.attr("reverse", False):
        return _back(b, n, stride)
    if stride < 1 or channels % block or height % stride or width % stride or min(channels, height, width) < 1:
        raise OpError(
            f"PassThrough {n.name!r} cannot cut {list(n.shape())} into blocks of {stride}; channels must divide by {block}, sides by {stride}"
        )
    # darknet reads the tensor as one of fewer channels and larger sides before it cuts the blocks
    x = b.reshape(n.input(0), [batch, channels // block, height, stride, width, stride])
    return b.reshape(b.transpose(x, [0, 3, 5, 1, 2, 4]), [batch, channels * block, height // stride, width // stride])


def _back(b: Builder, n: Site, stride: int) -> str:
    batch, channels, height, width = n.shape()
    block = stride * stride
    if stride < 1 or channels % block or min(channels, height, width) < 1:
        raise OpError(
            f"PassThrough {n.name!r} cannot put {list(n.shape())} together from blocks of {stride}; channels must divide by {block}"
        )
    x = b.reshape(n.input(0), [batch, stride, stride, channels // block, height, width])
    return b.reshape(b.transpose(x, [0, 3, 4, 1, 5, 2]), [batch, channels // block, height * stride, width * stride])
