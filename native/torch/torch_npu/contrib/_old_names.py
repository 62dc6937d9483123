"""`torch.contrib.npu.optimized_lib`: where the library was in the torch 1.5 builds that the porting guide describes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_PARENTS = ("torch.contrib", "torch.contrib.npu")
_NAME = "torch.contrib.npu.optimized_lib"


def pairwise_iou(boxes1: Any, boxes2: Any) -> Tensor:
    """IoU of each with each, for tensors [n, 4] or objects that hold one in `.tensor`, as detectron2's Boxes do."""
    contrib = import_module("torch_npu.contrib")
    return contrib.npu_iou(getattr(boxes1, "tensor", boxes1), getattr(boxes2, "tensor", boxes2))


@dataclass
class Instances:
    """What was found in an image, where detectron2 and its class of this name are not installed."""

    image_size: tuple[int, int]
    pred_boxes: Any
    scores: Tensor
    pred_classes: Tensor

    def __len__(self) -> int:
        return len(self.scores)


def _instances(image_size: tuple[int, int], boxes: Tensor, scores: Tensor, classes: Tensor) -> Any:
    structures = sys.modules.get("detectron2.structures")
    if structures is None:
        return Instances(image_size, boxes, scores, classes)
    instances = structures.Instances(image_size)
    instances.pred_boxes, instances.scores, instances.pred_classes = structures.Boxes(boxes), scores, classes
    return instances


def fast_rcnn_inference_single_image(
    boxes: Tensor,
    scores: Tensor,
    image_shape: tuple[int, int],
    score_thresh: float,
    nms_thresh: float,
    topk_per_image: int,
) -> tuple[Any, Tensor]:
    """Detections of one image from boxes (n, 4 or 4 * classes) and scores (n, classes + 1), and which rows they come from."""
    from torch_npu.operators.boxes.nms import order  # its kernel is made when it is first needed

    good = torch.isfinite(boxes).all(1) & torch.isfinite(scores).all(1)
    rows = good.nonzero().squeeze(1)
    height, width = image_shape
    points = scores[rows, :-1].t()
    classes, count = points.shape
    corners = boxes[rows].reshape(count, -1, 2, 2)
    limits = torch.tensor((width, height), dtype=boxes.dtype, device=boxes.device)
    corners = (
        torch.minimum(corners.clamp(min=0), limits).reshape(count, -1, 4).transpose(0, 1).expand(classes, count, 4)
    )
    kept, kept_counts = order(corners, points, nms_thresh, score_thresh, count)
    there = torch.arange(count, device=boxes.device) < kept_counts.unsqueeze(1)
    label, position = there.nonzero(as_tuple=True)
    row = kept[label, position].long()
    best, chosen = points[label, row].sort(descending=True, stable=True)
    if topk_per_image >= 0:
        best, chosen = best[:topk_per_image], chosen[:topk_per_image]
    label, row = label[chosen], row[chosen]
    return _instances(image_shape, corners[label, row], best, label), rows[row]


class _OldLibrary(ModuleType):
    """Names are looked up when they are asked for: programs that never ask do not pay for the library."""

    _own = {
        "pairwise_iou": pairwise_iou,
        "fast_rcnn_inference_single_image": fast_rcnn_inference_single_image,
    }

    def __getattr__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        contrib = import_module("torch_npu.contrib")
        wanted = "Prefetcher" if name == "PreLoader" else name
        if name == "__all__":
            return [*contrib.__all__, "PreLoader", *self._own]
        if wanted in contrib.__all__:
            return getattr(contrib, wanted)
        raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")


def install() -> None:
    """Make `from torch.contrib.npu.optimized_lib import ChannelShuffle` work; `torch.contrib` stays what it is where torch has it."""
    if _NAME in sys.modules:
        return
    above: Any = torch
    for name in _PARENTS:
        module = sys.modules.get(name) or ModuleType(name, "Holds torch.contrib.npu.optimized_lib.")
        if not hasattr(module, "__path__"):
            module.__path__ = []
        sys.modules[name] = module
        setattr(above, name.rpartition(".")[2], module)
        above = module
    library = _OldLibrary(_NAME, __doc__)
    sys.modules[_NAME] = library
    above.optimized_lib = library
