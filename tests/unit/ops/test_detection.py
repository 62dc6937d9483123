"""Boxes and regions against formulas by hand and OpenCV."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.caffe_support import net, op, write
from tests.caffe_support import run as run_net
from tests.unit.ops.support import Array, C, Const, F, compute, match, rand, run, same

ROIS = np.array([[0, 1, 2, 70, 90], [1, 30, 0, 100, 40], [0, 5, 5, 6, 6]], np.float32)


def roi_pool(x: Array, rois: Array, height: int, width: int, scale: tuple[float, float]) -> Array:
    actual = np.zeros((len(rois), x.shape[1], height, width), np.float32)
    for index, (image, x1, y1, x2, y2) in enumerate(rois):
        left, right = (math.floor(edge * scale[1] + 0.5) for edge in (x1, x2))
        top, bottom = (math.floor(edge * scale[0] + 0.5) for edge in (y1, y2))
        high, wide = max(bottom - top + 1, 1) / height, max(right - left + 1, 1) / width
        for row in range(height):
            for column in range(width):
                rows = [
                    min(max(edge + top, 0), x.shape[2])
                    for edge in (math.floor(row * high), math.ceil((row + 1) * high))
                ]
                columns = [
                    min(max(edge + left, 0), x.shape[3])
                    for edge in (math.floor(column * wide), math.ceil((column + 1) * wide))
                ]
                part = x[int(image), :, rows[0] : rows[1], columns[0] : columns[1]]
                if part.size:
                    actual[index, :, row, column] = part.max((1, 2))
    return actual


def test_suppression_in_batches() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], np.float32)
    limits = [Const(np.array([9], np.int32)), Const(np.array([0.5], np.float32)), Const(np.array([0.0], np.float32))]
    actual = run("NonMaxSuppressionV6", [boxes, np.array([[[0.9, 0.8, 0.7]]], np.float32), *limits])[0]
    np.testing.assert_array_equal(actual, np.array([[0, 0, 0], [0, 0, 2]], np.int32))


def test_suppression() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0, -1, -1], [0, 10, 1, 11], [0, 10, 1, 11.1]], F)
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.05], F)
    limits = (C(10), C(0.5, F), C(0.1, F))
    same(compute("NonMaxSuppressionV3", boxes, scores, *limits), np.array([3, 0, 2], np.int32))
    same(compute("NonMaxSuppressionV3", boxes, scores, C(1), C(0.5, F), C(0.1, F)), np.array([3], np.int32))
    same(
        compute("NonMaxSuppressionV3", boxes.astype(np.float16), scores.astype(np.float16), *limits),
        np.array([3, 0, 2], np.int32),
    )


def test_roi_pooling_with_a_scale_for_each_side() -> None:
    x = rand(2, 3, 9, 11)
    wanted = roi_pool(x, ROIS, 3, 2, (0.1, 0.125))
    match(op("ROIPooling", x, ROIS, pooled_h=3, pooled_w=2, spatial_scale_h=0.1, spatial_scale_w=0.125)[0], wanted)
    columns = np.stack([ROIS.T, ROIS.T])
    match(
        op("ROIPooling", x, columns, pooled_h=3, pooled_w=2, spatial_scale_h=0.1, spatial_scale_w=0.125)[0],
        np.concatenate([wanted, wanted]),
    )


def test_roi_align_of_a_plane_gives_the_middle_of_its_bins() -> None:
    y, x = np.meshgrid(np.arange(12.0), np.arange(14.0), indexing="ij")
    plane = (3 * y + 2 * x)[None, None].astype(np.float32)
    rois = np.array([[0, 4, 6, 20, 14]], np.float32)
    for mode, (begin, grow) in {0: (0, 0), 1: (0, 1), 3: (-0.5, 0)}.items():
        (actual,) = op(
            "ROIAlign", plane, rois, spatial_scale=0.5, pooled_height=2, pooled_width=4, sample_num=2, roi_end_mode=mode
        )
        left, right, top, bottom = 2 + begin, (20 + grow) / 2 + begin, 3 + begin, (14 + grow) / 2 + begin
        columns = left + (np.arange(4) + 0.5) * (right - left) / 4
        rows = top + (np.arange(2) + 0.5) * (bottom - top) / 2
        match(actual[0, 0], (3 * rows[:, None] + 2 * columns).astype(np.float32))


def test_psroi_pooling_takes_a_channel_for_every_bin(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed; it is what the results are compared with")
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 12 dim: 9 dim: 11 } } }
    layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 3 dim: 5 } } }
    layer { name: "y" type: "PSROIPooling" bottom: "x" bottom: "r" top: "y"
            psroi_pooling_param { spatial_scale: 0.1 output_dim: 3 group_size: 2 } }
    """
    x = rand(2, 12, 9, 11)
    other = cv2.dnn.readNetFromCaffe(*map(str, write(tmp_path, text)))
    other.setInput(x, "x")
    other.setInput(ROIS, "r")
    actual = run_net(net(tmp_path, text), x, ROIS)[0]
    match(actual, other.forward("y").reshape(actual.shape))


def test_proposal_finds_the_regions_that_opencv_finds(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed; it is what the results are compared with")
    head = """
    layer { name: "p" type: "Input" top: "p" input_param { shape { dim: 1 dim: 18 dim: 6 dim: 8 } } }
    layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 dim: 36 dim: 6 dim: 8 } } }
    layer { name: "i" type: "Input" top: "i" input_param { shape { dim: 1 dim: 3 } } }
    """
    params = "feat_stride: 16 base_size: 16 min_size: 16 ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32"
    ours = (
        head
        + f'layer {{ name: "y" type: "Proposal" bottom: "p" bottom: "d" bottom: "i" top: "y" top: "n" proposal_param {{ {params} pre_nms_topn: 200 post_nms_topn: 32 iou_threshold: 0.7 }} }}'
    )
    theirs = ours.replace('top: "n"', "").replace("iou_threshold", "nms_thresh")
    prob, delta = rand(1, 18, 6, 8, low=0), rand(1, 36, 6, 8, low=-0.2, high=0.2)
    info = np.array([[96, 128, 1]], np.float32)
    rois, number = run_net(net(tmp_path, ours), prob, delta, info)
    other = cv2.dnn.readNetFromCaffe(*map(str, write(tmp_path, theirs)))
    for name, array in (("p", prob), ("d", delta), ("i", info)):
        other.setInput(array, name)
    assert 0 < number[0, 0] < 32
    count = int(number[0, 0])
    assert not rois[0, :, count:].any()
    match(rois[0].T[:count], other.forward("y").reshape(-1, 5)[:count], 1e-3)


def test_ssd_detections_by_hand() -> None:
    priors = np.array([[0.1, 0.1, 0.3, 0.3], [0.12, 0.1, 0.32, 0.3], [0.6, 0.6, 0.9, 0.9]], np.float32)
    anchors = np.stack([priors.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 3)])[None].astype(np.float32)
    delta = np.zeros((1, 12), np.float32)
    delta[0, 8:12] = [1, 0, math.log(2) / 0.2, 0]
    score = np.array([[0.1, 0.9, 0.0, 0.2, 0.8, 0.0, 0.3, 0.1, 0.6]], np.float32)
    number, y = op(
        "SSDDetectionOutput",
        delta,
        score,
        anchors,
        outputs=2,
        num_classes=3,
        iou_threshold=0.5,
        top_k=10,
        code_type=2,
        keep_top_k=200,
        confidence_threshold=0.15,
    )
    assert y.shape == (1, 256, 8)
    assert number.tolist() == [[2, 0, 0, 0, 0, 0, 0, 0]]
    match(y[0, 0], np.array([0, 1, 0.9, 0.1, 0.1, 0.3, 0.3, 0], np.float32))
    match(y[0, 1], np.array([0, 2, 0.6, 0.78 - 0.3, 0.6, 0.78 + 0.3, 0.9, 0], np.float32))
    assert not y[0, 2:].any()


@pytest.mark.parametrize("code", [1, 3])
def test_ssd_other_box_codes(code: int) -> None:
    anchors = np.array([[[0.2, 0.2, 0.6, 0.5], [0.1, 0.1, 0.1, 0.1]]], np.float32)
    delta = np.array([[1, 2, 3, 4]], np.float32)
    side = np.array([0.4, 0.3, 0.4, 0.3]) if code == 3 else np.ones(4)
    _, y = op(
        "SSDDetectionOutput",
        delta,
        np.array([[0.2, 0.8]], np.float32),
        anchors,
        outputs=2,
        num_classes=2,
        code_type=code,
        keep_top_k=1,
    )
    match(y[0, 0, 3:7], (anchors[0, 0] + 0.1 * delta[0] * side).astype(np.float32))
