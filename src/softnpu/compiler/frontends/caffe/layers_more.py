"""Layers of other Caffes that atc knows: SSD, Faster R-CNN, R-FCN, segmentation and a few more."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.frontends.caffe.layers import MAKERS, copied, maker
from softnpu.compiler.frontends.caffe.net import Layer, Net
from softnpu.graph.ir import Value

MAKERS.update(
    {
        "Interp": copied(
            "Interp", "interp_param", height=0, width=0, zoom_factor=1, shrink_factor=1, pad_beg=0, pad_end=0
        ),
        "MatrixInverse": copied("MatrixInverse", "matrix_inverse_param", adjoint=False),
        "Permute": copied("Permute", "permute_param", order=[0]),
        "Reorg": copied("PassThrough", "reorg_param", stride=2, reverse=False),
        "Reverse": copied("ReverseV2D", "reverse_param", axis=[1]),
        "ShuffleChannel": copied("ShuffleChannel", "shuffle_channel_param", group=1),
    }
)


@maker("Axpy")
def axpy(net: Net, layer: Layer) -> list[Value]:
    """scale·x + y."""
    layer.count(3)
    return net.one(layer, "AxpyV1", layer.bottoms)


@maker("BatchedMatMul")
def batch_mat_mul(net: Net, layer: Layer) -> list[Value]:
    """Products of matrices."""
    layer.count(2)
    given = layer.param("batch_matmul_param")
    return net.one(
        layer, "BatchMatMul", layer.bottoms, adj_x1=given.get("adj_x1", False), adj_x2=given.get("adj_x2", False)
    )


@maker("ContinuationIndicator")
def continuation(net: Net, layer: Layer) -> list[Value]:
    """Marks of where sequences go on."""
    layer.count(0)
    steps, batch = (int(layer.need("continuation_indicator_param", word)) for word in ("time_step", "batch_size"))
    return net.one(layer, "ContinuationIndicator", [], time_step=steps, batch_size=batch)


@maker("Normalize")
def normalize(net: Net, layer: Layer) -> list[Value]:
    """SSD's normalisation with a scale."""
    layer.count(1)
    given = layer.param("norm_param")
    shared = bool(given.get("channel_shared", True))
    scale = net.blob(layer, 0, (1 if shared else layer.channels(),), "scale")
    attrs = {
        "across_spatial": given.get("across_spatial", True),
        "channel_shared": shared,
        "eps": given.get("eps", 1e-10),
    }
    return net.one(layer, "Normalize", [layer.bottoms[0], scale], **attrs)


@maker("Upsample")
def upsample(net: Net, layer: Layer) -> list[Value]:
    """Pixels repeated."""
    layer.count(1)
    given = layer.param("upsample_param")
    stride = given.get("stride", 2)
    attrs = {
        "stride_h": given.get("stride_h", stride),
        "stride_w": given.get("stride_w", stride),
        "scale": given.get("scale", 1.0),
    }
    return net.one(layer, "Upsample", layer.bottoms, **attrs)


@maker("PriorBox")
def prior_box(net: Net, layer: Layer) -> list[Value]:
    """SSD's default boxes."""
    layer.count(2)
    given = layer.param("prior_box_param")
    attrs: dict[str, Any] = {
        word: list(given.get(word, [])) for word in ("min_size", "max_size", "aspect_ratio", "variance")
    }
    attrs["variance"] = attrs["variance"] or [0.1]
    for word, kind in (("img", "size"), ("step", "")):
        both = given.get(f"{word}_{kind}" if kind else word, 0)
        attrs[f"{word}_h"], attrs[f"{word}_w"] = given.get(f"{word}_h", both), given.get(f"{word}_w", both)
    attrs |= {"flip": given.get("flip", True), "clip": given.get("clip", False), "offset": given.get("offset", 0.5)}
    return net.one(layer, "PriorBox", layer.bottoms, **attrs)


@maker("SSDDetectionOutput")
def ssd(net: Net, layer: Layer) -> list[Value]:
    """SSD's detections: two tops, the count and the boxes."""
    layer.count(3)
    layer.need("ssddetectionoutput_param", "num_classes")
    given = layer.param("ssddetectionoutput_param")
    return net.node(layer, "SSDDetectionOutput", layer.bottoms, 2, **given).outputs


@maker("Proposal")
def proposal(net: Net, layer: Layer) -> list[Value]:
    """The regions of Faster R-CNN; the second top, their number, is optional."""
    layer.count(3)
    attrs = {
        word: layer.need("proposal_param", word) for word in ("feat_stride", "base_size", "min_size", "ratio", "scale")
    }
    defaults = {
        "pre_nms_topn": 3000,
        "post_nms_topn": 304,
        "iou_threshold": 0.7,
        "output_actual_rois_num": layer.tops > 1,
    }
    attrs |= {word: layer.param("proposal_param").get(word, value) for word, value in defaults.items()}
    return net.node(layer, "Proposal", layer.bottoms, 2, **attrs).outputs


@maker("ROIPooling")
def roi_pooling(net: Net, layer: Layer) -> list[Value]:
    """The maximum in the bins of regions."""
    layer.count(2, 3)
    given = layer.param("roi_pooling_param")
    attrs = {word: int(layer.need("roi_pooling_param", word)) for word in ("pooled_h", "pooled_w")}
    scale = given.get("spatial_scale", 0.0625)
    scales = {word: given.get(word, scale) for word in ("spatial_scale_h", "spatial_scale_w")}
    return net.one(layer, "ROIPooling", layer.bottoms, **attrs, **scales)


@maker("ROIAlign")
def roi_align(net: Net, layer: Layer) -> list[Value]:
    """Bilinear averages in the bins of regions."""
    layer.count(2)
    given = layer.param("roi_align_param")
    height, width = (int(layer.need("roi_align_param", word)) for word in ("pooled_h", "pooled_w"))
    attrs = {"spatial_scale": given.get("spatial_scale", 1.0), "sample_num": given.get("sampling_ratio", -1)}
    return net.one(
        layer,
        "ROIAlign",
        layer.bottoms,
        pooled_height=height,
        pooled_width=width,
        roi_end_mode=given.get("roi_end_mode", 0),
        **attrs,
    )


@maker("PSROIPooling")
def psroi_pooling(net: Net, layer: Layer) -> list[Value]:
    """Averages in bins that have channels of their own."""
    layer.count(2)
    attrs = {word: layer.need("psroi_pooling_param", word) for word in ("spatial_scale", "output_dim", "group_size")}
    return net.one(layer, "PSROIPooling", layer.bottoms, **attrs)
