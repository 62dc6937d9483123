"""torch.ops.npu of detection: overlaps and suppression, against loops in plain Python, OpenCV and published samples."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import cv2
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_npu import operators

operators.register()
npu: Any = torch.ops.npu


def corner_boxes(count: int, seed: int, size: float = 20.0) -> torch.Tensor:
    torch.manual_seed(seed)
    low = torch.rand(count, 2) * size
    return torch.cat((low, low + torch.rand(count, 2) * size + 1), 1)


def plain_iou(a: list[float], b: list[float]) -> float:
    inter = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


# --- IoU in float16 -----------------------------------------------------------------------------------------------------


def test_iou_rounds_as_published() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42]]).half().npu()
    truth = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20]]).half().npu()
    result = npu.npu_iou(boxes, truth, 0)
    assert result.device.type == "npu" and result.dtype == torch.float16
    wanted = torch.tensor([[0.4985, 0, 0], [0, 0, 0], [0, 0.9961, 0]])
    torch.testing.assert_close(result.float().cpu(), wanted, atol=5e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_iou_is_gt_by_boxes_and_near_the_true_one(dtype: torch.dtype) -> None:
    boxes, truth = corner_boxes(7, 0), corner_boxes(4, 1)
    result = npu.npu_ptiou(boxes.to(dtype).npu(), truth.to(dtype).npu()).cpu()
    assert result.shape == (4, 7) and result.dtype == dtype
    for row, column in product(range(4), range(7)):
        true = plain_iou(boxes[column].tolist(), truth[row].tolist())
        assert abs(result[row, column].item() - true) < 0.02


def test_iof_divides_by_the_area_of_the_ground_truth() -> None:
    result = npu.npu_iou(torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([[0.0, 0, 10, 20]]), 1)
    assert abs(result.item() - 0.5) < 0.003
    with pytest.raises(RuntimeError, match="mode must be 0"):
        npu.npu_iou(torch.zeros(1, 4), torch.zeros(1, 4), 2)
    with pytest.raises(RuntimeError, match=r"gtboxes must be \[n, 4\]"):
        npu.npu_iou(torch.zeros(1, 4), torch.zeros(1, 5))


def test_iou_of_boxes_larger_than_float16_areas_is_a_number() -> None:
    boxes = torch.tensor([[0.0, 0, 8000, 8000]]).npu()
    assert torch.isfinite(npu.npu_iou(boxes, boxes)).all()


# --- GIoU, DIoU, CIoU ---------------------------------------------------------------------------------------------------


def plain_forms(a: list[float], b: list[float]) -> tuple[float, float, float]:
    """giou, diou and ciou of two boxes given as centre and size."""
    p = [a[0] - a[2] / 2, a[1] - a[3] / 2, a[0] + a[2] / 2, a[1] + a[3] / 2]
    q = [b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2]
    iou = plain_iou(p, q)
    wide, high = max(p[2], q[2]) - min(p[0], q[0]), max(p[3], q[3]) - min(p[1], q[1])
    inter = max(0.0, min(p[2], q[2]) - max(p[0], q[0])) * max(0.0, min(p[3], q[3]) - max(p[1], q[1]))
    union = a[2] * a[3] + b[2] * b[3] - inter
    diou = iou - ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) / (wide**2 + high**2)
    v = 4 / math.pi**2 * (math.atan(b[2] / b[3]) - math.atan(a[2] / a[3])) ** 2
    return iou - (wide * high - union) / (wide * high), diou, diou - v * v / (1 - iou + v)


@pytest.fixture
def centred() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return torch.rand(4, 9, dtype=torch.float64) + 0.2, torch.rand(4, 9, dtype=torch.float64) + 0.2


@pytest.mark.parametrize("which", [0, 1, 2])
def test_forms_of_iou(centred: tuple[torch.Tensor, torch.Tensor], which: int) -> None:
    boxes, truth = centred
    name = ("npu_giou", "npu_diou", "npu_ciou")[which]
    call = getattr(npu, name)
    result = call(boxes.npu(), truth.npu(), True, False, 0).cpu()
    assert result.shape == ((9, 1) if which == 0 else (1, 9))
    wanted = [plain_forms(boxes[:, i].tolist(), truth[:, i].tolist())[which] for i in range(9)]
    torch.testing.assert_close(result.reshape(-1), torch.tensor(wanted, dtype=torch.float64))
    half = call(boxes.half().npu(), truth.half().npu(), True, False, 0)
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.cpu().double().reshape(-1), result.reshape(-1), atol=5e-3, rtol=0)
    same = call(boxes.npu(), boxes.npu(), True, False, 0)
    torch.testing.assert_close(same, torch.ones_like(same))


def test_corners_and_crossing(centred: tuple[torch.Tensor, torch.Tensor]) -> None:
    boxes, truth = centred
    corners = [torch.cat((one[:2] - one[2:] / 2, one[:2] + one[2:] / 2)) for one in centred]
    for call in (npu.npu_diou, npu.npu_ciou):
        crossed = call(boxes, truth[:, :5], True, True, 0)
        assert crossed.shape == (5, 9)
        torch.testing.assert_close(call(corners[0], corners[1][:, :5], False, True, 0), crossed)
        paired = call(boxes, truth, True, False, 0)
        torch.testing.assert_close(crossed.diagonal(), paired[0, :5])
        assert torch.equal(call(boxes, truth, True, False, 1) >= paired, torch.ones(1, 9, dtype=torch.bool))


@pytest.mark.parametrize("name", ["npu_giou", "npu_diou"])
def test_derivatives_of_overlaps_are_those_of_finite_differences(
    centred: tuple[torch.Tensor, torch.Tensor], name: str
) -> None:
    boxes, truth = (one.clone().requires_grad_() for one in centred)
    call, backward = getattr(npu, name), getattr(npu, f"{name}_backward")
    assert torch.autograd.gradcheck(lambda a, b: call(a, b, True, False, 0), (boxes, truth))
    result = call(boxes, truth, True, False, 0)
    grad = torch.randn_like(result)
    for one, two in zip(
        torch.autograd.grad(result, (boxes, truth), grad), backward(grad, boxes, truth, True, False, 0), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_ciou_derivative_leaves_the_weight_out(centred: tuple[torch.Tensor, torch.Tensor]) -> None:
    boxes, truth = (one.clone().requires_grad_() for one in centred)
    value, angle = npu._npu_ciou(boxes, truth, True, False, 0, True)
    v = 4 / math.pi**2 * (torch.atan(truth[2] / truth[3]) - torch.atan(boxes[2] / boxes[3])) ** 2
    iou = npu.npu_diou(boxes, truth, True, False, 0)
    plain_iou_part = (value - iou).detach()  # -weight * v
    wanted = iou + (plain_iou_part / v.detach()) * v
    grad = torch.randn_like(value)
    expected = torch.autograd.grad(wanted, (boxes, truth), grad)
    result = torch.autograd.grad(value, (boxes, truth), grad, retain_graph=True)
    again = npu.npu_ciou_backward(grad, boxes, truth, angle, True, False, 0)
    for one, two, three in zip(expected, result, again, strict=True):
        torch.testing.assert_close(one, two)
        torch.testing.assert_close(two, three)
    assert npu._npu_ciou(boxes, truth, True, False)[1].numel() == 0


def test_forms_that_are_refused() -> None:
    boxes = torch.rand(4, 3)
    for arguments in ((False, False, 0), (True, True, 0), (True, False, 1)):
        with pytest.raises(RuntimeError, match="trans=True, is_cross=False, mode=0 only"):
            npu.npu_giou(boxes, boxes, *arguments)
        with pytest.raises(RuntimeError, match="trans=True, is_cross=False, mode=0 only"):
            npu.npu_diou_backward(torch.ones(1, 3), boxes, boxes, *arguments)
    for name in ("npu_diou", "npu_ciou"):
        for arguments in ((False, False, 0), (True, True, 0), (True, False, 1)):
            boxes, truth = torch.rand(4, 3, requires_grad=True), torch.rand(4, 3, requires_grad=True)
            for pair in ((boxes, truth), (boxes.detach(), truth), (boxes, truth.detach())):
                result = getattr(npu, name)(*pair, *arguments)  # the value is documented, its derivative is not
                with pytest.raises(RuntimeError, match=f"derivative of {name}[\\s\\S]*is_cross=False, mode=0 only"):
                    result.sum().backward()
            plain = getattr(npu, name)(boxes.detach(), truth.detach(), *arguments)
            assert torch.equal(plain, result.detach()) and not plain.requires_grad
    with pytest.raises(RuntimeError, match="cannot be paired"):
        npu.npu_diou(boxes, torch.rand(4, 2))
    with pytest.raises(RuntimeError, match=r"must be \[4, n\]"):
        npu.npu_ciou(torch.rand(3, 4), torch.rand(3, 4))


# --- suppression --------------------------------------------------------------------------------------------------------


def plain_nms(boxes: list[list[float]], scores: list[float], overlap: float, lowest: float, limit: int) -> list[int]:
    order = sorted((i for i, s in enumerate(scores) if s > lowest), key=lambda i: -scores[i])
    kept: list[int] = []
    for i in order:
        if len(kept) < limit and all(plain_iou(boxes[i], boxes[k]) <= overlap for k in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize(("overlap", "lowest", "limit"), [(0.5, 0.2, 60), (0.1, 0.0, 60), (0.3, 0.0, 5), (0.3, 2.0, 5)])
def test_nms_v4(overlap: float, lowest: float, limit: int) -> None:
    boxes, scores = corner_boxes(60, 5), torch.rand(60)
    indices, count = npu.npu_nms_v4(boxes.npu(), scores.npu(), limit, torch.tensor(overlap).npu(), torch.tensor(lowest))
    wanted = plain_nms(boxes.tolist(), scores.tolist(), overlap, lowest, limit)
    assert count.dim() == 0 and count.dtype == torch.int32 and indices.dtype == torch.int32
    assert count.item() == len(wanted)
    assert indices.tolist() == wanted + [0] * (limit - len(wanted))


def test_nms_v4_suppresses_strictly_above_the_threshold() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 20]])  # IoU exactly 0.5
    assert npu.npu_nms_v4(boxes, torch.tensor([0.9, 0.8]), 2, torch.tensor(0.5), torch.tensor(0.0))[1] == 2
    assert npu.npu_nms_v4(boxes, torch.tensor([0.9, 0.8]), 2, torch.tensor(0.49), torch.tensor(0.0))[1] == 1
    with pytest.raises(RuntimeError, match="one for each"):
        npu.npu_nms_v4(boxes, torch.rand(3), 2, torch.tensor(0.5), torch.tensor(0.0))


def test_nms_has_shapes_for_fake_tensors() -> None:
    with FakeTensorMode():
        indices, count = npu.npu_nms_v4(
            torch.rand(30, 4), torch.rand(30), 12, torch.tensor(0.5), torch.tensor(0.0), True
        )
        assert (indices.shape, count.shape) == ((12,), ())
        result = npu.npu_batch_nms(torch.rand(2, 9, 1, 4), torch.rand(2, 9, 3), 0.1, 0.5, 4, 20)
        assert [tuple(one.shape) for one in result] == [(2, 20, 4), (2, 20), (2, 20), (2,)]
        assert npu.npu_nms_with_mask(torch.rand(6, 8), 0.5)[2].shape == (6,)


def test_nms_with_mask() -> None:
    boxes, scores = corner_boxes(40, 8), torch.rand(40)
    rows = torch.cat((boxes, scores.unsqueeze(1), torch.zeros(40, 3)), 1)
    found, index, mask = npu.npu_nms_with_mask(rows.npu(), 0.3)
    kept = plain_nms(boxes.tolist(), scores.tolist(), 0.3, -1, 40)
    assert torch.equal(found.cpu(), rows[:, :5]) and index.tolist() == list(range(40))
    assert mask.dtype == torch.uint8 and set(mask.nonzero().flatten().tolist()) == set(kept)


def test_nms_with_mask_sample() -> None:
    rows = torch.tensor([[0.0, 1, 2, 3, 0.6, 0, 0, 0], [6, 7, 8, 9, 0.4, 0, 0, 0]]).half().npu()
    found, index, mask = npu.npu_nms_with_mask(rows, 0.5)
    assert torch.equal(found, rows[:, :5]) and index.tolist() == [0, 1] and mask.tolist() == [1, 1]
    for columns in (4, 5, 7):
        with pytest.raises(RuntimeError, match=r"\[N, 8\]"):
            npu.npu_nms_with_mask(rows[:, :columns], 0.5)


@pytest.mark.parametrize(("shared", "transposed"), [(True, False), (False, False), (False, True)])
def test_batch_nms(shared: bool, transposed: bool) -> None:
    batch, count, classes = 2, 20, 3
    boxes = torch.stack([corner_boxes(count, i) for i in range(batch * (1 if shared else classes))])
    boxes = boxes.reshape(batch, -1, count, 4).half().float()
    scores = torch.rand(batch, count, classes).half().float()
    given = boxes.permute(0, 1, 3, 2) if transposed else boxes.permute(0, 2, 1, 3)
    result = npu.npu_batch_nms(given.npu(), scores.npu(), 0.3, 0.4, 6, 11, False, transposed)
    found_boxes, found_scores, found_classes, counts = (one.cpu() for one in result)
    assert found_boxes.dtype == found_scores.dtype == found_classes.dtype == torch.float16
    assert counts.dtype == torch.int32
    for image in range(batch):
        wanted = []
        for label in range(classes):
            own = boxes[image, 0 if shared else label].tolist()
            points = scores[image, :, label].tolist()
            wanted += [(points[i], label, own[i]) for i in plain_nms(own, points, 0.4, 0.3, 6)]
        wanted = sorted(wanted, key=lambda one: -one[0])[:11]
        assert counts[image] == len(wanted)
        for place, (score, label, box) in enumerate(wanted):
            assert found_scores[image, place].item() == pytest.approx(score)
            assert found_classes[image, place] == label and found_boxes[image, place].tolist() == pytest.approx(box)
        assert not found_boxes[image, len(wanted) :].any() and not found_scores[image, len(wanted) :].any()


def test_batch_nms_refuses() -> None:
    boxes, scores = torch.rand(1, 4, 1, 4), torch.rand(1, 4, 2)
    with pytest.raises(NotImplementedError, match="clip window"):
        npu.npu_batch_nms(boxes, scores, 0.1, 0.5, 3, 4, True)
    with pytest.raises(RuntimeError, match="do not fit"):
        npu.npu_batch_nms(boxes.expand(1, 4, 3, 4), scores, 0.1, 0.5, 3, 4)
    with pytest.raises(RuntimeError, match="max_size_per_class must be 1 to 100, not 0"):
        npu.npu_batch_nms(boxes, scores, 0.1, 0.5, 0, 4)
    assert npu.npu_batch_nms(boxes, scores, 0.1, 0.5, 200, 4)[0].shape == (1, 4, 4)


# --- rotated boxes ------------------------------------------------------------------------------------------------------


def turned_boxes(count: int, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.cat((torch.rand(count, 2) * 12, torch.rand(count, 2) * 9 + 1, torch.rand(count, 1) * 360 - 180), 1)


def cv_area(a: list[float], b: list[float]) -> float:
    kind, points = cv2.rotatedRectangleIntersection((a[:2], a[2:4], a[4]), (b[:2], b[2:4], b[4]))
    return 0.0 if kind == cv2.INTERSECT_NONE else float(cv2.contourArea(cv2.convexHull(points)))


def cv_iou(a: list[float], b: list[float]) -> float:
    inter = cv_area(a, b)
    return inter / (a[2] * a[3] + b[2] * b[3] - inter)


def test_rotated_overlaps_and_iou_against_opencv() -> None:
    boxes, query = turned_boxes(24, 0).reshape(2, 12, 5), turned_boxes(16, 1).reshape(2, 8, 5)
    area = npu.npu_rotated_overlaps(boxes.npu(), query.npu()).cpu()
    over = npu.npu_rotated_iou(boxes.npu(), query.npu()).cpu()
    alone = npu.npu_rotated_iou(boxes.npu(), query.npu(), mode=1).cpu()
    assert area.shape == over.shape == (2, 12, 8)
    for b, i, j in product(range(2), range(12), range(8)):
        one, two = boxes[b, i].tolist(), query[b, j].tolist()
        assert area[b, i, j].item() == pytest.approx(cv_area(one, two), abs=5e-3)
        assert over[b, i, j].item() == pytest.approx(cv_iou(one, two), abs=1e-3)
        assert alone[b, i, j].item() == pytest.approx(cv_area(one, two) / (one[2] * one[3]), abs=1e-3)
    assert (area > 0.1).sum() > 40


def test_rotated_special_cases() -> None:
    box = torch.tensor([[[5.0, 5, 4, 2, 30], [0, 0, 2, 2, 45], [1, 1, 4, 4, 0], [9, 9, 0, 0, 10]]]).double()
    paired = npu.npu_rotated_iou(box, box, is_cross=False)
    torch.testing.assert_close(paired, torch.tensor([[1.0, 1, 1, 0]]).double())
    turned = box.clone()
    turned[..., 4] += 180
    torch.testing.assert_close(npu.npu_rotated_iou(box, turned, is_cross=False), paired)
    eight = npu.npu_rotated_overlaps(torch.tensor([[[0.0, 0, 2, 2, 0]]]), torch.tensor([[[0.0, 0, 2, 2, 45]]]))
    assert eight.item() == pytest.approx(8 * (math.sqrt(2) - 1), rel=1e-6)  # a regular octagon
    far = npu.npu_rotated_overlaps(torch.tensor([[[0.0, 0, 2, 2, 20]]]), torch.tensor([[[9.0, 0, 2, 2, 70]]]))
    assert far.item() == 0
    corners = torch.tensor([[[0.0, 0, 4, 2, 33]]])
    torch.testing.assert_close(
        npu.npu_rotated_overlaps(corners, corners, True), torch.tensor([[[8.0]]]), atol=1e-5, rtol=0
    )
    assert npu.npu_rotated_iou(torch.zeros(1, 0, 5), torch.zeros(1, 3, 5)).shape == (1, 0, 3)
    with pytest.raises(RuntimeError, match="mode must be 0"):
        npu.npu_rotated_iou(box, box, mode=3)
    with pytest.raises(RuntimeError, match="thresholds must not be negative"):
        npu.npu_rotated_iou(box, box, v_threshold=-1.0)


@pytest.mark.parametrize("mode", [0, 1])
def test_nms_rotated(mode: int) -> None:
    boxes, scores = turned_boxes(50, 4), torch.rand(50)
    given = torch.cat((boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, :2] + boxes[:, 2:4] / 2, boxes[:, 4:]), 1)
    indices, count = npu.npu_nms_rotated((given if mode else boxes).npu(), scores.npu(), 0.2, 0.1, -1, mode)
    kept: list[int] = []
    for i in sorted((i for i in range(50) if scores[i] > 0.1), key=lambda i: -scores[i].item()):
        if all(cv_iou(boxes[i].tolist(), boxes[k].tolist()) <= 0.2 for k in kept):
            kept.append(i)
    assert indices.tolist() == kept and indices.dtype == torch.int32
    assert count.tolist() == [len(kept)] and 3 < len(kept) < 50
    assert npu.npu_nms_rotated(boxes, scores, 0.2, 0.1, 3)[0].tolist() == kept[:3]


def test_rotated_coder_samples_and_inverse() -> None:
    anchor = torch.tensor([[[30.69], [32.6], [45.94], [59.88], [-44.53]]]).half().npu()
    truth = torch.tensor([[[30.44], [18.72], [33.22], [45.56], [8.5]]]).half().npu()
    weight = torch.ones(5).half().npu()
    result = npu.npu_rotated_box_encode(anchor, truth, weight).cpu().float().flatten()
    torch.testing.assert_close(result, torch.tensor([-0.4253, -0.5166, -1.7021, -0.0162, 1.1328]), atol=4e-3, rtol=0)
    start = torch.tensor([[[4.137], [33.72], [29.4], [54.06], [41.28]]])
    moves = torch.tensor([[[0.0244], [-1.992], [0.2109], [0.315], [-37.25]]])
    result = npu.npu_rotated_box_decode(start.npu(), moves.npu(), torch.ones(5).npu()).cpu().flatten()
    torch.testing.assert_close(result, torch.tensor([1.7861, -10.5781, 33.0, 17.2969, -88.4375]), atol=0.03, rtol=0)
    weights = torch.tensor([10.0, 10, 5, 5, 2])
    boxes = torch.cat((corner_boxes(6, 1), torch.rand(6, 1) * 160 - 80), 1).t().unsqueeze(0)
    other = torch.cat((corner_boxes(6, 2), torch.rand(6, 1) * 160 - 80), 1).t().unsqueeze(0)
    deltas = npu.npu_rotated_box_encode(boxes, other, weights)
    torch.testing.assert_close(npu.npu_rotated_box_decode(boxes, deltas, weights), other, rtol=1e-4, atol=1e-3)
    with pytest.raises(RuntimeError, match=r"\[B, 5, N\]"):
        npu.npu_rotated_box_decode(start[0], moves[0], weights)
