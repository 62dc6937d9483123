"""`torch_npu.contrib`: functions, each against what it stands for."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch_npu import contrib
from torch_npu.contrib import _old_names

from tests.torch.operators.test_boxes import corner_boxes, plain_forms, plain_iou, plain_nms


def test_the_names_of_contrib_are_there_once() -> None:
    assert contrib.npu_iou is contrib.function.npu_iou and contrib.ChannelShuffle is contrib.module.ChannelShuffle
    assert all(hasattr(contrib, name) for name in contrib.__all__) and len(contrib.__all__) == len(set(contrib.__all__))


def test_iou_is_boxes1_by_boxes2() -> None:
    first, second = corner_boxes(5, 0), corner_boxes(3, 1)
    result = contrib.npu_iou(first.npu(), second.npu())
    assert result.shape == (5, 3) and contrib.npu_ptiou is contrib.npu_iou
    wanted = torch.tensor([[plain_iou(a, b) for b in second.tolist()] for a in first.tolist()])
    torch.testing.assert_close(result.cpu(), wanted, atol=0.02, rtol=0)
    small = contrib.npu_iou((first / 50).npu(), (second / 50).npu(), "iou", True, 5000.0).cpu()
    torch.testing.assert_close(small, wanted, atol=0.02, rtol=0)
    over = contrib.npu_iou(first, second, mode="iof")
    sizes = torch.tensor([(b[2] - b[0]) * (b[3] - b[1]) for b in second.tolist()])
    plain = torch.tensor([[(a[2] - a[0]) * (a[3] - a[1]) for _ in range(3)] for a in first.tolist()])
    inter = wanted * (plain + sizes) / (1 + wanted)
    torch.testing.assert_close(over, inter / sizes, atol=0.02, rtol=0)
    with pytest.raises(ValueError, match="mode must be one of iou, ptiou, iof, not 'giou'"):
        contrib.npu_iou(first, second, mode="giou")


def test_giou_diou_ciou() -> None:
    torch.manual_seed(0)
    a, b = torch.rand(6, 4).double() + 0.2, torch.rand(6, 4).double() + 0.2
    wanted = torch.tensor([plain_forms(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]).double()
    torch.testing.assert_close(contrib.npu_giou(a, b), wanted[:, :1], check_dtype=False, atol=1e-6, rtol=0)
    torch.testing.assert_close(contrib.npu_giou(a.t(), b.t(), is_permuted=False), contrib.npu_giou(a, b))
    torch.testing.assert_close(contrib.npu_diou(a.t(), b.t())[0], wanted[:, 1], atol=1e-6, rtol=0)
    torch.testing.assert_close(contrib.npu_ciou(a.t(), b.t())[0], wanted[:, 2], atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="needs its partner"):
        contrib.npu_giou(a, b[:3])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("factors", [True, False])
def test_multiclass_nms(shared: bool, factors: bool) -> None:
    count, classes = 30, 3
    boxes = torch.cat([corner_boxes(count, i) for i in range(1 if shared else classes)], 1).half().float()
    scores = torch.rand(count, classes + 1).half().float()
    factor = torch.rand(count) * 0.5 + 0.5 if factors else None
    dets, labels = contrib.npu_multiclass_nms(
        boxes.npu(), scores.npu(), 0.2, 0.4, 12, None if factor is None else factor.npu()
    )
    assert dets.shape == (12, 5) and labels.shape == (12,) and dets.dtype == torch.float32
    used = (scores if factor is None else scores * factor.unsqueeze(1)).half().float()
    wanted = []
    for label in range(classes):
        own = boxes[:, :4] if shared else boxes[:, 4 * label : 4 * label + 4]
        points = used[:, label].tolist()
        wanted += [(points[i], label, own[i].tolist()) for i in plain_nms(own.tolist(), points, 0.4, 0.2, 12)]
    wanted = sorted(wanted, key=lambda one: -one[0])[:12]
    for row, label, (score, cls, box) in zip(dets.tolist(), labels.tolist(), wanted, strict=False):
        assert row == pytest.approx([*box, score], abs=1e-3) and label == cls
    many, names = contrib.npu_batched_multiclass_nms(
        torch.stack((boxes, boxes)), torch.stack((scores, scores * 0)), 0.2, 0.4, 12
    )
    assert many.shape == (2, 12, 5) and names.shape == (2, 12) and not many[1].any()
    if factor is None:
        assert torch.equal(many[0], dets.cpu())
    with pytest.raises(ValueError, match="do not fit"):
        contrib.npu_multiclass_nms(boxes[:, :3], scores)


def test_coders_and_flags() -> None:
    boxes, truth = corner_boxes(6, 0), corner_boxes(6, 1)
    means, stds = (0.0, 0.1, 0.0, 0.2), (0.1, 0.1, 0.2, 0.2)
    deltas = contrib.npu_bbox_coder_encode_xyxy2xywh(boxes.npu(), truth.npu(), means, stds)
    back = contrib.npu_bbox_coder_decode_xywh2xyxy(boxes.npu(), deltas, means, stds)
    torch.testing.assert_close(back.cpu(), truth, atol=1e-3, rtol=0)
    scaled = contrib.npu_bbox_coder_encode_xyxy2xywh(boxes / 1e3, truth / 1e3, is_normalized=True, normalized_scale=1e3)
    torch.testing.assert_close(scaled, contrib.npu_bbox_coder_encode_xyxy2xywh(boxes, truth), atol=1e-4, rtol=1e-4)
    one = contrib.npu_bbox_coder_encode_yolo(boxes, truth, 8)
    torch.testing.assert_close(one, contrib.npu_bbox_coder_encode_yolo(boxes, truth, torch.full((6,), 8)))
    assert one[:, 0].tolist() == pytest.approx(
        [
            min(max(((b[0] + b[2]) / 2 - (a[0] + a[2]) / 2) / 8 + 0.5, 1e-6), 1 - 1e-6)
            for a, b in zip(boxes.tolist(), truth.tolist(), strict=True)
        ],
        abs=1e-5,
    )
    flags = contrib.npu_single_level_responsible_flags((4, 5), torch.tensor([[0.0, 0, 20, 10]]).npu(), (8, 4), 2)
    assert flags.nonzero().flatten().tolist() == [12, 13]  # row 1, column 1
    with pytest.raises(ValueError, match="four values each"):
        contrib.npu_bbox_coder_encode_xyxy2xywh(boxes, truth, means=(0.0,))


def test_fast_condition_index_put() -> None:
    x = torch.randn(4, 5)
    x[0, 0] = math.inf
    plain = x.clone()
    plain[x > 0] = 2.0
    assert torch.equal(contrib.npu_fast_condition_index_put(x.npu(), (x > 0).npu(), 2.0).cpu(), plain)
    with pytest.raises(TypeError, match="must be a bool tensor"):
        contrib.npu_fast_condition_index_put(x, torch.ones(4, 5), 0.0)
    with pytest.raises(ValueError, match="must have the shape of x"):
        contrib.npu_fast_condition_index_put(x, torch.ones(5, dtype=torch.bool), 0.0)


def test_roll_and_matmul_transpose() -> None:
    x = torch.randn(2, 6, 6, 3)
    assert torch.equal(contrib.roll(x.npu(), shifts=(-2, -2), dims=(1, 2)).cpu(), torch.roll(x, (-2, -2), (1, 2)))
    a, b = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    torch.testing.assert_close(contrib.matmul_transpose(a.npu(), b.npu()).cpu(), torch.einsum("bij,bkj->bik", a, b))


def test_add_softmax_dropout() -> None:
    torch.manual_seed(0)
    scores, mask = torch.randn(2, 3, 16, 32), torch.randn(2, 1, 16, 32)
    plain = torch.softmax(scores / 8 + mask, -1)
    quiet = contrib.fuse_add_softmax_dropout(False, torch.nn.Dropout(0.5).eval(), mask, scores, 64)
    torch.testing.assert_close(quiet, plain)
    mask = mask.expand_as(scores).contiguous()
    loud = contrib.fuse_add_softmax_dropout(True, torch.nn.Identity(), mask.npu(), scores.npu(), 64, p=0.25).cpu()
    kept = loud != 0
    torch.testing.assert_close(loud[kept], plain[kept] / 0.75)
    assert 0.7 < kept.float().mean() < 0.8


def test_fused_attention() -> None:
    torch.manual_seed(0)
    batch, length, hidden = 2, 5, 128
    x = torch.randn(batch * length, hidden)
    mask = torch.where(torch.rand(batch, 1, length, length) > 0.3, 0.0, -1e4)
    kernels, biases = [torch.randn(hidden, hidden) / 12 for _ in range(3)], [torch.randn(hidden) for _ in range(3)]

    def plain(states: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            F.linear(states, w, b).reshape(batch, length, 2, 64).transpose(1, 2)
            for w, b in zip(kernels, biases, strict=True)
        )
        out = F.scaled_dot_product_attention(q, k, v, mask.expand(-1, 2, -1, -1), scale=0.125)
        return out.transpose(1, 2).reshape(batch * length, hidden)

    arguments = [one.npu() for one in (x, mask, *kernels, *biases)]
    result = contrib.npu_fused_attention(*arguments, scale=0.125)
    torch.testing.assert_close(result.cpu(), plain(x), atol=1e-5, rtol=1e-4)
    gamma, beta = torch.rand(hidden), torch.rand(hidden)
    context, normed = contrib.npu_fused_attention_with_layernorm(*arguments, gamma.npu(), beta.npu(), scale=0.125)
    torch.testing.assert_close(normed.cpu(), F.layer_norm(x, (hidden,), gamma, beta), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(context.cpu(), plain(normed.cpu()), atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="do not fit"):
        contrib.npu_fused_attention(arguments[0][:3], *arguments[1:])


def test_old_names() -> None:
    _old_names.install()
    _old_names.install()
    from torch.contrib.npu import optimized_lib
    from torch.contrib.npu.optimized_lib import ChannelShuffle, PreLoader, pairwise_iou  # type: ignore[import-not-found]

    assert ChannelShuffle is contrib.ChannelShuffle and PreLoader is contrib.Prefetcher
    assert torch.contrib.npu.optimized_lib is optimized_lib and "npu_iou" in optimized_lib.__all__
    boxes = SimpleNamespace(tensor=corner_boxes(3, 0).npu())
    assert torch.equal(pairwise_iou(boxes, boxes), contrib.npu_iou(boxes.tensor, boxes.tensor))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        optimized_lib.nothing


def test_fast_rcnn_inference() -> None:
    count, classes, size = 25, 3, (24, 30)
    boxes = torch.cat([corner_boxes(count, i) for i in range(classes)], 1)
    scores = torch.rand(count, classes + 1)
    boxes[4, 2] = math.nan
    _old_names.install()
    from torch.contrib.npu.optimized_lib import fast_rcnn_inference_single_image  # type: ignore[import-not-found]

    found, rows = fast_rcnn_inference_single_image(boxes.npu(), scores.npu(), size, 0.3, 0.5, 8)
    good = [i for i in range(count) if i != 4]
    wanted = []
    for label in range(classes):
        own = boxes[:, 4 * label : 4 * label + 4][good]
        own = torch.stack(
            (own[:, 0].clamp(0, 30), own[:, 1].clamp(0, 24), own[:, 2].clamp(0, 30), own[:, 3].clamp(0, 24)), 1
        )
        points = scores[good, label].tolist()
        wanted += [(points[i], label, good[i], own[i].tolist()) for i in plain_nms(own.tolist(), points, 0.5, 0.3, 99)]
    wanted = sorted(wanted, key=lambda one: -one[0])[:8]
    assert len(found) == 8 and rows.tolist() == [one[2] for one in wanted] and found.image_size == size
    assert found.pred_classes.tolist() == [one[1] for one in wanted]
    assert found.scores.tolist() == pytest.approx([one[0] for one in wanted])
    for box, one in zip(found.pred_boxes.tolist(), wanted, strict=True):
        assert box == pytest.approx(one[3])
