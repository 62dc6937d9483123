"""Overlap of upright boxes: IoU as the chip rounds it, and its generalised, distance and complete forms with their derivatives."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_npu._errors import ops_error
from torch_npu.operators.common.arguments import ErrCode, gradients, require, unsupported, wide

_EPS = 0.01  # added to the sides of both boxes, never to those of the intersection
_SCALE = 0.01  # of one side: keeps areas inside float16
_TINY = 1e-9  # what 0/0 is divided by, for boxes without area
_HALF_MAX = 65504.0


def _check_mode(name: str, mode: int) -> None:
    require(mode in (0, 1), f"{name}: mode must be 0 (iou) or 1 (intersection over gt area), not {mode}", ErrCode.VALUE)


def _area16(width: Tensor, height: Tensor) -> Tensor:
    return (width * _SCALE * height).clamp(max=_HALF_MAX)


def npu_iou(bboxes: Tensor, gtboxes: Tensor, mode: int = 0) -> Tensor:
    """Each step is rounded to float16 as in the chip's kernel, so two equal boxes of 10 by 10 overlap by 0.9961."""
    _check_mode("npu_iou", mode)
    for name, boxes in (("bboxes", bboxes), ("gtboxes", gtboxes)):
        require(boxes.dim() == 2 and boxes.shape[1] == 4, f"npu_iou: {name} must be [n, 4], not {list(boxes.shape)}")
    with torch.no_grad():
        x0, y0, x1, y1 = bboxes.half().unbind(1)
        left, top, right, bottom = gtboxes.half().unsqueeze(-1).unbind(1)
        width = (torch.minimum(x1, right) - torch.maximum(x0, left)).clamp(min=0)
        height = (torch.minimum(y1, bottom) - torch.maximum(y0, top)).clamp(min=0)
        inter = _area16(width, height)
        of_gt = _area16(right - left + _EPS, bottom - top + _EPS)
        of_boxes = _area16(x1 - x0 + _EPS, y1 - y0 + _EPS)
        below = of_boxes + of_gt - inter if mode == 0 else of_gt
        return (inter / below).to(bboxes.dtype)


npu_ptiou = npu_iou


def _corners(boxes: Tensor, trans: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a, b, c, d = boxes.unbind(0)
    return (a - c / 2, b - d / 2, a + c / 2, b + d / 2) if trans else (a, b, c, d)


class _Pairs:
    """Boxes [4, n] against [4, m]: one by one as [1, n], or with `is_cross` each with each as [m, n]."""

    def __init__(self, boxes: Tensor, gtboxes: Tensor, trans: bool, is_cross: bool, mode: int) -> None:
        boxes, gtboxes = wide(boxes), wide(gtboxes)
        x0, y0, x1, y1 = (side.unsqueeze(0) for side in _corners(boxes, trans))
        left, top, right, bottom = (side.unsqueeze(1 if is_cross else 0) for side in _corners(gtboxes, trans))
        self.width, self.height = x1 - x0, y1 - y0
        self.gt_width, self.gt_height = right - left, bottom - top
        across = (torch.minimum(x1, right) - torch.maximum(x0, left)).clamp(min=0)
        down = (torch.minimum(y1, bottom) - torch.maximum(y0, top)).clamp(min=0)
        inter, of_gt = across * down, self.gt_width * self.gt_height
        self.union = self.width * self.height + of_gt - inter
        self.iou = inter / (self.union if mode == 0 else of_gt).clamp(min=_TINY)
        self.hull_width = torch.maximum(x1, right) - torch.minimum(x0, left)
        self.hull_height = torch.maximum(y1, bottom) - torch.minimum(y0, top)
        self.distance = ((x0 + x1 - left - right) ** 2 + (y0 + y1 - top - bottom) ** 2) / 4

    def giou(self) -> Tensor:
        hull = (self.hull_width * self.hull_height).clamp(min=_TINY)
        return self.iou - (hull - self.union) / hull

    def diou(self) -> Tensor:
        return self.iou - self.distance / (self.hull_width**2 + self.hull_height**2).clamp(min=_TINY)

    def ciou(self) -> tuple[Tensor, Tensor]:
        """With the difference of angles; the weight of the aspect term takes no part in the derivative, as in the paper."""
        angle = torch.atan2(self.gt_width, self.gt_height) - torch.atan2(self.width, self.height)
        aspect = 4 / math.pi**2 * angle**2
        weight = (aspect / (1 - self.iou + aspect).clamp(min=_TINY)).detach()
        return self.diou() - weight * aspect, angle


def _check(name: str, boxes: Tensor, gtboxes: Tensor, is_cross: bool, mode: int) -> None:
    _check_mode(name, mode)
    for argument, tensor in (("boxes", boxes), ("gtboxes", gtboxes)):
        require(
            tensor.dim() == 2 and tensor.shape[0] == 4, f"{name}: {argument} must be [4, n], not {list(tensor.shape)}"
        )
    require(boxes.dtype == gtboxes.dtype, f"{name}: boxes are {boxes.dtype}, gtboxes {gtboxes.dtype}", ErrCode.TYPE)
    require(
        is_cross or boxes.shape[1] == gtboxes.shape[1],
        f"{name}: {boxes.shape[1]} boxes and {gtboxes.shape[1]} gtboxes cannot be paired; is_cross=True compares all",
    )


class _Underived(torch.autograd.Function):
    """Boxes as they are, whose derivative is refused with a message."""

    generate_vmap_rule = True

    @staticmethod
    def forward(boxes: Tensor, message: str) -> Tensor:
        return boxes.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
        ctx.message = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> NoReturn:
        raise RuntimeError(ctx.message)


def _derived(name: str, boxes: Tensor, gtboxes: Tensor, form: tuple[bool, bool, int]) -> tuple[Tensor, Tensor]:
    """The boxes; a form without a derivative gives its value, and says so when the derivative is asked for."""
    if _has_derivative(*form) or not torch.is_grad_enabled():
        return boxes, gtboxes
    message = _only(f"The derivative of {name}", *form) + ops_error(ErrCode.PARAM)
    first, second = (_refusing(x, message) if x.requires_grad else x for x in (boxes, gtboxes))
    return first, second


def _refusing(boxes: Tensor, message: str) -> Tensor:
    result: Tensor = _Underived.apply(boxes, message)  # type: ignore[no-untyped-call]
    return result


def _has_derivative(trans: bool, is_cross: bool, mode: int) -> bool:
    return trans and not is_cross and mode == 0


def _only(name: str, trans: bool, is_cross: bool, mode: int) -> str:
    return (
        f"{name} is made for trans=True, is_cross=False, mode=0 only, not for trans={trans}, is_cross={is_cross}, "
        f"mode={mode}; give boxes as centre, width, height"
    )


def _refuse_other_forms(name: str, trans: bool, is_cross: bool, mode: int) -> None:
    require(_has_derivative(trans, is_cross, mode), _only(name, trans, is_cross, mode))


def npu_giou(self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    _refuse_other_forms("npu_giou", trans, is_cross, mode)
    _check("npu_giou", self, gtboxes, is_cross, mode)
    return _Pairs(self, gtboxes, trans, is_cross, mode).giou().t().to(self.dtype)


def npu_diou(self: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Tensor:
    _check("npu_diou", self, gtboxes, is_cross, mode)
    self, gtboxes = _derived("npu_diou", self, gtboxes, (trans, is_cross, mode))
    return _Pairs(self, gtboxes, trans, is_cross, mode).diou().to(self.dtype)


def _npu_ciou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> tuple[Tensor, Tensor]:
    """The second result is the difference of the angles, empty unless it is asked for."""
    _check("npu_ciou", self, gtboxes, is_cross, mode)
    self, gtboxes = _derived("npu_ciou", self, gtboxes, (trans, is_cross, mode))
    result, angle = _Pairs(self, gtboxes, trans, is_cross, mode).ciou()
    return result.to(self.dtype), angle.to(self.dtype) if atan_sub_flag else self.new_empty(0)


def npu_ciou(
    self: Tensor,
    gtboxes: Tensor,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
    atan_sub_flag: bool = False,
) -> Tensor:
    return _npu_ciou(self, gtboxes, trans, is_cross, mode, atan_sub_flag)[0]


def npu_giou_backward(
    grad: Tensor, bboxes: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> tuple[Tensor, Tensor]:
    _refuse_other_forms("npu_giou_backward", trans, is_cross, mode)
    return gradients(lambda a, b: npu_giou(a, b, True), grad, bboxes, gtboxes)


def npu_diou_backward(
    grad: Tensor, bboxes: Tensor, gtboxes: Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> tuple[Tensor, Tensor]:
    _refuse_other_forms("npu_diou_backward", trans, is_cross, mode)
    return gradients(lambda a, b: npu_diou(a, b, True), grad, bboxes, gtboxes)


def npu_ciou_backward(
    grad: Tensor,
    bboxes: Tensor,
    gtboxes: Tensor,
    atan_sub: Tensor | None,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """The angles are computed again: reading them back from `atan_sub` would save less than it costs."""
    _refuse_other_forms("npu_ciou_backward", trans, is_cross, mode)
    if atan_sub is not None and atan_sub.numel() not in (0, bboxes.shape[1]):
        raise unsupported(f"npu_ciou_backward: atan_sub has {atan_sub.numel()} values for {bboxes.shape[1]} boxes")
    return gradients(lambda a, b: npu_ciou(a, b, True, False), grad, bboxes, gtboxes)
