"""AIPP in a graph: which nodes do it, and what a program sees of an input that has it.

Static AIPP is a node `Aipp` behind its `Data`, lowered with the rest of the model. Dynamic AIPP is a node `AippDynamic`,
whose second input is the parameter block (`AippData`); it has no ONNX form, so whoever runs the graph computes it first
and hands its result to the engine. A `Data` in front of either holds uint8 in the layout of memory (`Value.shape`);
`attrs["aipp_dims"]` has the dims that programs see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.base.aipp import FORMATS, YUV400, YUV420SP, AippParams, Format, csc_defaults, half, widest
from softnpu.base.aipp_block import MAX_BATCH, block_bytes, pack, unpack
from softnpu.base.dtypes import DType, TensorFormat, element_size
from softnpu.graph.ir import Graph, Node, Shape

__all__ = [
    "DYNAMIC", "FORMATS", "MAX_BATCH", "PARAMETERS", "STATIC", "YUV400", "YUV420SP", "AippInput", "AippParams", "Format", "block_bytes",
    "csc_defaults", "find", "first_info", "half", "input_dims", "input_dims_v2", "memory_shape", "output_dims", "pack", "source_size", "unpack", "widest",
]  # fmt: skip

STATIC, DYNAMIC = "Aipp", "AippDynamic"
PARAMETERS = (
    "ascend_dynamic_aipp_data"  # of the first parameter input; further ones have the AIPP node's name behind it
)
UINT8, NHWC = DType.UINT8, TensorFormat.NHWC
_SHOWN_CHANNELS = {4: 1, 2: 4, 7: 4, 10: 4}  # all others show three


@dataclass(frozen=True)
class AippInput:
    """An input of a graph with AIPP: its Data node, the AIPP node, and for dynamic AIPP the node of the parameter block."""

    data: Node
    node: Node
    block: Node | None = None

    @property
    def static(self) -> bool:
        """Whether the parameters are fixed in the model."""
        return self.block is None

    @property
    def params(self) -> AippParams:
        """The parameters of static AIPP as they were given, also where a pass has moved some of the work elsewhere."""
        return AippParams.from_json(self.node.attrs.get("aipp_given", self.node.attrs["aipp"]))

    @property
    def max_src_image_size(self) -> int:
        """The bytes that a source picture (all of the batch) may have with dynamic AIPP."""
        return int(self.data.attrs["max_src_image_size"])


def find(graph: Graph) -> list[AippInput]:
    """Every input with AIPP, in the order of the inputs."""
    inputs = []
    for node in graph.nodes:
        if node.type in (STATIC, DYNAMIC):
            data = node.inputs[0].producer if node.inputs[0] is not None else None
            block = node.inputs[1].producer if len(node.inputs) > 1 and node.inputs[1] is not None else None
            if data is None:
                raise ValueError(f"{node.type} {node.name!r} has no input")
            inputs.append(AippInput(data, node, block))
    return sorted(inputs, key=lambda entry: int(entry.data.attrs.get("index", 0)))


def input_dims(input_format: int, n: int, h: int, w: int) -> list[int]:
    """What acl.mdl.get_input_dims answers for static AIPP: NHWC, whatever lies in memory. -1 is unknown."""
    return [n, h, w, _SHOWN_CHANNELS.get(input_format, 3)]


def input_dims_v2(input_format: int, n: int, h: int, w: int) -> list[int]:
    """What acl.mdl.get_input_dims_v2 answers: the layout in memory."""
    return list(FORMATS[input_format].memory_dims(n, h, w))


def memory_shape(data: Node, shape: Shape) -> Shape:
    """The shape in memory of an input whose open sizes were filled with height and width of a picture (a gear)."""
    code = data.attrs.get("aipp_format")
    declared = data.output.shape
    if code is None or declared is None or declared[1] >= 0:
        return shape
    return FORMATS[int(code)].memory_dims(*shape[:3])


def source_size(data: Node, shape: Shape) -> tuple[int, int, int]:
    """Number, height and width of the pictures in a tensor that lies in memory like this (-1 unknown)."""
    return shape[0], FORMATS[int(data.attrs["aipp_format"])].source_height(shape[1]), shape[2]


def output_dims(node: Node, n: int, h: int = 0, w: int = 0) -> list[int]:
    """The dims of what a static AIPP node hands to the model; h and w are the source's where the parameters leave it open."""
    params = AippParams.from_json(node.attrs["aipp"])
    height, width = params.output_size(h, w)
    shape = [int(dim) for dim in node.attrs["model_shape"]]
    if node.attrs["model_format"] == NHWC:
        return [n, height, width, shape[3]]
    return [n, shape[1], height, width]


def first_info(entry: AippInput, sizes: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """What acl.mdl.get_first_aipp_info answers; `sizes` are number, height and width of the source
    pictures, one triple per gear."""
    params = entry.params
    attrs = entry.node.attrs
    source = entry.data.output
    shapes = []
    for n, height, width in sizes:
        dims = output_dims(entry.node, n, height, width)
        size = element_size(int(attrs["model_dtype"]))
        for dim in dims:
            size *= dim
        shapes.append(
            {
                "srcDims": _dims(entry.data.name, input_dims(params.input_format, n, height, width)),
                "srcSize": params.format.source_bytes(n, height, width),
                "aippOutdims": _dims(entry.node.name, dims),
                "aippOutSize": size,
            }
        )
    info = params.to_json()
    info |= {"srcFormat": int(attrs["model_format"]), "srcDatatype": int(attrs["model_dtype"])}
    info |= {"srcDimNum": len(source.shape or ()), "shapeCount": len(shapes), "outDims": shapes, "aippExtend": 0}
    return info


def _dims(name: str, dims: list[int]) -> dict[str, Any]:
    return {"name": name, "dimCount": len(dims), "dims": dims}
