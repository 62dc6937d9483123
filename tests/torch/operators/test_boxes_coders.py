"""torch.ops.npu of detection: regions of feature maps, box coders and assignment, against plain loops and published samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_npu import operators

from tests.torch.operators.test_boxes import corner_boxes

operators.register()
npu: Any = torch.ops.npu


# --- RoIAlign -----------------------------------------------------------------------------------------------------------


def bilinear(plane: np.ndarray, y: float, x: float) -> float:
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    top = plane[y0, x0] * (1 - x + x0) + plane[y0, x1] * (x - x0)
    return float(top * (1 - y + y0) + (plane[y1, x0] * (1 - x + x0) + plane[y1, x1] * (x - x0)) * (y - y0))


def plain_roi_align(
    x: torch.Tensor, rois: torch.Tensor, scale: float, out: tuple[int, int], num: int, mode: int
) -> Any:
    result = np.zeros((len(rois), x.shape[1], *out))
    offset = 0.5 if mode > 1 else 0.0
    for k, (image, *sides) in enumerate(rois.tolist()):
        x0, y0 = sides[0] * scale - offset, sides[1] * scale - offset
        x1, y1 = ((one + (mode == 1)) * scale - offset for one in sides[2:])
        wide, high = (x1 - x0, y1 - y0) if mode > 1 else (max(x1 - x0, 1), max(y1 - y0, 1))
        step_y, step_x = high / out[0], wide / out[1]
        down, across = num or math.ceil(step_y), num or math.ceil(step_x)
        for c, i, j in np.ndindex(x.shape[1], *out):
            total = 0.0
            for a, b in np.ndindex(max(down, 0), max(across, 0)):
                y = y0 + i * step_y + (a + 0.5) * step_y / down
                total += bilinear(x[int(image), c].numpy(), y, x0 + j * step_x + (b + 0.5) * step_x / across)
            result[k, c, i, j] = total / max(down * across, 1)
    return torch.from_numpy(result)


ROIS = torch.tensor(
    [[0.0, 3, 2, 40, 33], [1, 10, 8, 30, 50], [1, -20, -9, 9, 12], [0, 5, 5, 5.5, 5.2], [1, 50, 40, 90, 80]]
).double()


def test_roi_align_sample() -> None:
    x = torch.arange(1.0, 37).reshape(1, 1, 6, 6).npu()
    rois = torch.tensor([[0.0, -2, -2, 22, 22]]).npu()
    result = npu.npu_roi_align(x, rois, 0.25, 3, 3, 2, 0)
    assert result.tolist() == [[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]]


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("num", [0, 2, 3])
def test_roi_align_against_a_loop(mode: int, num: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 12, dtype=torch.float64)
    result = npu.npu_roi_align(x.npu(), ROIS.npu(), 0.2, 2, 3, num, mode)
    torch.testing.assert_close(result.cpu(), plain_roi_align(x, ROIS, 0.2, (2, 3), num, mode))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_roi_align_types(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 9, 12).to(dtype)
    result = npu.npu_roi_align(x.npu(), ROIS.to(dtype).npu(), 0.25, 2, 2, 2, 0)
    wanted = plain_roi_align(x.double(), ROIS.to(dtype).double(), 0.25, (2, 2), 2, 0)
    assert result.dtype == dtype
    torch.testing.assert_close(result.cpu().double(), wanted, atol=2e-2 if dtype.itemsize == 2 else 1e-5, rtol=1e-2)


def test_roi_align_derivative_and_shapes() -> None:
    x = torch.randn(2, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda one: npu.npu_roi_align(one, ROIS, 0.15, 2, 3, 2, 3), (x,))
    result = npu.npu_roi_align(x, ROIS, 0.15, 2, 3, 2, 1)
    grad = torch.randn_like(result)
    wanted = torch.autograd.grad(result, x, grad)[0]
    torch.testing.assert_close(npu.npu_roi_alignbk(grad, ROIS, [2, 2, 5, 6], 3, 2, 0.15, 2), wanted)
    torch.testing.assert_close(
        npu.npu_roi_alignbk(grad.npu(), ROIS.npu(), [2, 2, 5, 6], 3, 2, 0.15, 2, 1).cpu(), wanted
    )
    with FakeTensorMode():
        assert npu.npu_roi_align(torch.rand(1, 4, 8, 8), torch.rand(6, 5), 1.0, 7, 5, 2, 0).shape == (6, 4, 7, 5)
    assert npu.npu_roi_align(x, ROIS[:0], 0.15, 2, 3, 0, 0).shape == (0, 2, 2, 3)


def test_roi_align_refuses() -> None:
    x = torch.rand(1, 1, 4, 4)
    with pytest.raises(RuntimeError, match="roi_end_mode must be 0, 1, 2 or 3, not 4"):
        npu.npu_roi_align(x, ROIS, 1.0, 2, 2, 2, 4)
    with pytest.raises(RuntimeError, match=r"rois must be \[K, 5\]"):
        npu.npu_roi_align(x, ROIS[:, :4], 1.0, 2, 2, 2, 0)
    for size in ((0, 2), (2, 0), (-1, 2)):
        with pytest.raises(
            RuntimeError, match=rf"pooled_height and pooled_width must be positive, not {size[0]} and {size[1]}"
        ):
            npu.npu_roi_align(x, ROIS, 1.0, *size, 2, 0)


@pytest.mark.parametrize("image", [2.0, -1.0, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_roi_align_names_an_image_that_is_not_there(image: float, dtype: torch.dtype) -> None:
    x = torch.rand(2, 1, 4, 4, dtype=dtype).npu().requires_grad_()
    rois = torch.tensor([[0.0, 0, 0, 3, 3], [image, 0, 0, 3, 3]], dtype=dtype).npu()
    with pytest.raises(RuntimeError, match=f"npu_roi_align: roi 1 is of image {image}[\\s\\S]*there are 2"):
        npu.npu_roi_align(x, rois, 1.0, 2, 2, 2, 0)


# --- position sensitive pooling -----------------------------------------------------------------------------------------


def plain_ps(x: torch.Tensor, rois: torch.Tensor, scale: float, group: int, dim: int) -> torch.Tensor:
    height, width = x.shape[2:]
    flat = rois.transpose(1, 2).reshape(-1, 5).tolist()
    result = torch.zeros(len(flat), dim, group, group, dtype=x.dtype)
    for k, (image, x0, y0, x1, y1) in enumerate(flat):
        left, top = round(x0) * scale, round(y0) * scale
        wide = max((round(x1) + 1) * scale - left, 0.1) / group
        high = max((round(y1) + 1) * scale - top, 0.1) / group
        for c, i, j in np.ndindex(dim, group, group):
            rows = slice(
                *(min(max(n, 0), height) for n in (math.floor(top + i * high), math.ceil(top + (i + 1) * high)))
            )
            cols = slice(
                *(min(max(n, 0), width) for n in (math.floor(left + j * wide), math.ceil(left + (j + 1) * wide)))
            )
            part = x[int(image), (c * group + i) * group + j, rows, cols]
            result[k, c, i, j] = part.mean() if part.numel() else 0
    return result


def test_ps_roi_pooling() -> None:
    torch.manual_seed(2)
    x = torch.randn(2, 8, 5, 6, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor(
        [[[0.0, 4, 6, 30, 40], [0, -9, 3, 20, 25]], [[1, 12, 2, 39, 12], [1, 70, 70, 90, 90]]], dtype=torch.float64
    ).transpose(1, 2)
    result = npu.npu_ps_roi_pooling(x, rois, 0.15, 2, 2)
    torch.testing.assert_close(result, plain_ps(x, rois, 0.15, 2, 2))
    assert torch.autograd.gradcheck(lambda one: npu.npu_ps_roi_pooling(one, rois, 0.15, 2, 2), (x,))
    grad = torch.randn_like(result)
    wanted = torch.autograd.grad(result, x, grad)[0]
    for size in ([5, 6], [2, 8, 5, 6]):
        back = npu.npu_ps_roi_pooling_backward(grad.npu(), rois.npu(), 0.15, 2, 2, size)
        torch.testing.assert_close(back.cpu(), wanted)


def test_ps_roi_pooling_sample() -> None:
    rois = torch.tensor([[[1], [2], [3], [4], [5]], [[6], [7], [8], [9], [10]]]).half().npu()
    x = torch.arange(1, 17).reshape(2, 8, 1, 1).half().npu()
    result = npu.npu_ps_roi_pooling(x, rois, 0.5, 2, 2)
    assert result.dtype == torch.float16 and result.shape == (2, 2, 2, 2) and not result.any()
    with pytest.raises(RuntimeError, match="8 channels; group_size² \\* output_dim = 12"):
        npu.npu_ps_roi_pooling(x, rois, 0.5, 2, 3)


# --- coders and assignment ----------------------------------------------------------------------------------------------


def test_bounding_box_samples() -> None:
    rois = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]]).npu()
    deltas = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]]).npu()
    result = npu.npu_bounding_box_decode(rois, deltas, 0, 0, 0, 0, 1, 1, 1, 1, (10, 10), 0.1)
    assert result.tolist() == [[2.5, 6.5, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]
    encoded = npu.npu_bounding_box_encode(rois, deltas, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2).cpu()
    torch.testing.assert_close(
        encoded, torch.tensor([[13.3281, 13.3281, 0, 0], [13.3281, 6.6641, 0, -5.4922]]), atol=6e-3, rtol=0
    )


def test_bounding_box_encode_and_decode_are_inverse() -> None:
    boxes, truth = corner_boxes(10, 1), corner_boxes(10, 2)
    numbers = (0.1, -0.1, 0.2, 0.05, 0.1, 0.2, 0.3, 0.4)
    deltas = npu.npu_bounding_box_encode(boxes, truth, *numbers)
    back = npu.npu_bounding_box_decode(boxes, deltas, *numbers, (100, 60), 0.001)
    torch.testing.assert_close(back, truth, rtol=1e-4, atol=1e-4)
    clipped = npu.npu_bounding_box_decode(boxes, deltas, *numbers, (8, 5), 0.001)
    assert clipped[:, 0::2].max() == 4 and clipped[:, 1::2].max() == 7
    with pytest.raises(RuntimeError, match="one length"):
        npu.npu_bounding_box_encode(boxes, truth[:3], *numbers)
    with pytest.raises(RuntimeError, match="wh_ratio_clip must be positive"):
        npu.npu_bounding_box_decode(boxes, deltas, *numbers, (8, 5), 0.0)


def test_yolo_encode() -> None:
    boxes, truth, stride = corner_boxes(5, 1), corner_boxes(5, 2), torch.tensor([8, 16, 32, 8, 4])
    result = npu.npu_yolo_boxes_encode(boxes.npu(), truth.npu(), stride.npu(), False).cpu()
    for row, a, b, s in zip(result.tolist(), boxes.tolist(), truth.tolist(), stride.tolist(), strict=True):
        wanted = [((b[i] + b[i + 2]) / 2 - (a[i] + a[i + 2]) / 2) / s + 0.5 for i in (0, 1)]
        wanted = [min(max(one, 1e-6), 1 - 1e-6) for one in wanted]
        wanted += [math.log((b[i + 2] - b[i]) / (a[i + 2] - a[i])) for i in (0, 1)]
        assert row == pytest.approx(wanted, abs=1e-5)
    assert torch.equal(npu.npu_yolo_boxes_encode(boxes, truth, stride, True), result)
    with pytest.raises(RuntimeError, match="one for each"):
        npu.npu_yolo_boxes_encode(boxes, truth, stride[:2])


def test_anchor_response_flags() -> None:
    torch.manual_seed(0)
    assert npu.npu_anchor_response_flags(torch.rand(100, 4).npu(), (60, 60), (2, 2), 9).shape == (32400,)
    boxes = corner_boxes(12, 1, 30.0)
    result = npu.npu_anchor_response_flags(boxes.npu(), (5, 7), (8, 4), 3).cpu()
    wanted = np.zeros((5, 7, 3), np.uint8)
    for x0, y0, x1, y1 in boxes.tolist():
        column, row = int((x0 + x1) / 2 // 8), int((y0 + y1) / 2 // 4)
        if column < 7 and row < 5:
            wanted[row, column] = 1
    assert result.dtype == torch.uint8 and result.tolist() == wanted.reshape(-1).tolist() and wanted.any()


@pytest.mark.parametrize("everything", [True, False])
def test_grid_assign_positive(everything: bool) -> None:
    torch.manual_seed(1)
    overlaps = (torch.rand(6, 30) * 10).round() / 10  # ties
    flags = torch.rand(30) > 0.4
    best, which = overlaps.max(0)
    gt_best, gt_which = overlaps.max(1)
    start = torch.full((30,), -1.0)
    wanted = start.clone()
    for i in range(30):
        if best[i] > 0.8 and flags[i]:
            wanted[i] = which[i] + 1
    for g in range(6):
        if gt_best[g] > 0.5:
            if everything:
                wanted[(overlaps[g] == gt_best[g]) & flags] = g + 1
            elif flags[gt_which[g]]:
                wanted[gt_which[g]] = g + 1
    tensors = (start, overlaps, flags.to(torch.uint8), best, which.int(), gt_best, gt_which.int())
    result = npu.npu_grid_assign_positive(*(one.npu() for one in tensors), 128, 0.8, 0.5, everything)
    assert result.tolist() == wanted.tolist() and (wanted > 0).sum() > 4
