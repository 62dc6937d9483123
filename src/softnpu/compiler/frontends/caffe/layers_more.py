"""Layers of other Caffes that atc knows: SSD, Faster R-CNN, R-FCN, segmentation and a few more."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.frontends.caffe.making import Maker, copied, enters
from softnpu.compiler.frontends.caffe.net import Layer, Net
from softnpu.graph.ir import Value

MAKERS: dict[str, Maker] = {
    "Interp": copied("Interp", "interp_param", height=0, width=0, zoom_factor=1, shrink_factor=1, pad_beg=0, pad_end=0),
    "MatrixInverse": copied("MatrixInverse", "matrix_inverse_param", adjoint=False),
    "Permute": copied("Permute", "permute_param", order=[0]),
    "Reorg": copied("PassThrough", "reorg_param", stride=2, reverse=False),
    "Reverse": copied("ReverseV2D", "reverse_param", axis=[1]),
    "ShuffleChannel": copied("ShuffleChannel", "shuffle_channel_param", group=1),
}
maker = enters(MAKERS)


@maker("Axpy")
def axpy(net: Net, layer: Layer) -> list[Value]:
    """scale·x + y."""
    layer.count(3)
    return net.result(layer, "AxpyV1", layer.bottoms)


@maker("BatchedMatMul")
def batch_mat_mul(net: Net, layer: Layer) -> list[Value]:
    """Products of matrices."""
    layer.count(2)
    params = layer.param("batch_matmul_param")
    return net.result(
        layer, "BatchMatMul", layer.bottoms, adj_x1=params.get("adj_x1", False), adj_x2=params.get("adj_x2", False)
    )


@maker("ContinuationIndicator")
def continuation(net: Net, layer: Layer) -> list[Value]:
    """Marks of where sequences go on."""
    layer.count(0)
    steps, batch = (int(layer.need("continuation_indicator_param", field)) for field in ("time_step", "batch_size"))
    return net.result(layer, "ContinuationIndicator", [], time_step=steps, batch_size=batch)


@maker("Normalize")
def normalize(net: Net, layer: Layer) -> list[Value]:
    """SSD's normalisation with a scale."""
    layer.count(1)
    params = layer.param("norm_param")
    shared = bool(params.get("channel_shared", True))
    scale = net.blob(layer, 0, (1 if shared else layer.channels(),), "scale")
    attrs = {
        "across_spatial": params.get("across_spatial", True),
        "channel_shared": shared,
        "eps": params.get("eps", 1e-10),
    }
    return net.result(layer, "Normalize", [layer.bottoms[0], scale], **attrs)


@maker("Upsample")
def upsample(net: Net, layer: Layer) -> list[Value]:
    """Pixels repeated."""
    layer.count(1)
    params = layer.param("upsample_param")
    stride = params.get("stride", 2)
    attrs = {
        "stride_h": params.get("stride_h", stride),
        "stride_w": params.get("stride_w", stride),
        "scale": params.get("scale", 1.0),
    }
    return net.result(layer, "Upsample", layer.bottoms, **attrs)


@maker("PriorBox")
def prior_box(net: Net, layer: Layer) -> list[Value]:
    """SSD's default boxes."""
    layer.count(2)
    params = layer.param("prior_box_param")
    attrs: dict[str, Any] = {
        side: list(params.get(side, [])) for side in ("min_size", "max_size", "aspect_ratio", "variance")
    }
    attrs["variance"] = attrs["variance"] or [0.1]
    for side, kind in (("img", "size"), ("step", "")):
        both = params.get(f"{side}_{kind}" if kind else side, 0)
        attrs[f"{side}_h"], attrs[f"{side}_w"] = params.get(f"{side}_h", both), params.get(f"{side}_w", both)
    attrs |= {"flip": params.get("flip", True), "clip": params.get("clip", False), "offset": params.get("offset", 0.5)}
    return net.result(layer, "PriorBox", layer.bottoms, **attrs)


@maker("SSDDetectionOutput")
def ssd(net: Net, layer: Layer) -> list[Value]:
    """SSD's detections: two tops, the count and the boxes."""
    layer.count(3)
    layer.need("ssddetectionoutput_param", "num_classes")
    params = layer.param("ssddetectionoutput_param")
    return net.node(layer, "SSDDetectionOutput", layer.bottoms, 2, **params).outputs


@maker("Proposal")
def proposal(net: Net, layer: Layer) -> list[Value]:
    """The regions of Faster R-CNN; the second top, their number, is optional."""
    layer.count(3)
    attrs = {
        field: layer.need("proposal_param", field)
        for field in ("feat_stride", "base_size", "min_size", "ratio", "scale")
    }
    defaults = {
        "pre_nms_topn": 3000,
        "post_nms_topn": 304,
        "iou_threshold": 0.7,
        "output_actual_rois_num": layer.tops > 1,
    }
    attrs |= {field: layer.param("proposal_param").get(field, value) for field, value in defaults.items()}
    return net.node(layer, "Proposal", layer.bottoms, 2, **attrs).outputs


@maker("ROIPooling")
def roi_pooling(net: Net, layer: Layer) -> list[Value]:
    """The maximum in the bins of regions."""
    layer.count(2, 3)
    params = layer.param("roi_pooling_param")
    attrs = {field: int(layer.need("roi_pooling_param", field)) for field in ("pooled_h", "pooled_w")}
    scale = params.get("spatial_scale", 0.0625)
    scales = {field: params.get(field, scale) for field in ("spatial_scale_h", "spatial_scale_w")}
    return net.result(layer, "ROIPooling", layer.bottoms, **attrs, **scales)


@maker("ROIAlign")
def roi_align(net: Net, layer: Layer) -> list[Value]:
    """Bilinear averages in the bins of regions."""
    layer.count(2)
    params = layer.param("roi_align_param")
    height, width = (int(layer.need("roi_align_param", field)) for field in ("pooled_h", "pooled_w"))
    attrs = {"spatial_scale": params.get("spatial_scale", 1.0), "sample_num": params.get("sampling_ratio", -1)}
    return net.result(
        layer,
        "ROIAlign",
        layer.bottoms,
        pooled_height=height,
        pooled_width=width,
        roi_end_mode=params.get("roi_end_mode", 0),
        **attrs,
    )


@maker("PSROIPooling")
def psroi_pooling(net: Net, layer: Layer) -> list[Value]:
    """Averages in bins that have channels of their own."""
    layer.count(2)
    attrs = {field: layer.need("psroi_pooling_param", field) for field in ("spatial_scale", "output_dim", "group_size")}
    return net.result(layer, "PSROIPooling", layer.bottoms, **attrs)
