"""Operators of Caffe's table against plain NumPy formulas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import net, op, run, write

Array = np.ndarray[Any, Any]


def rand(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def close(found: Array, wanted: Array, tolerance: float = 1e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# ---- pooling ---------------------------------------------------------------------------------------------------------


def caffe_pool(
    x: Array, kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], average: bool, ceil: bool
) -> Array:
    """Window by window, as the layer is described: the divisor is the window inside the padded area."""
    sizes = []
    for size, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True):
        room = (size + 2 * p - k) / s
        count = int(math.ceil(room) if ceil else math.floor(room)) + 1
        if any(pad) and (count - 1) * s >= size + p:
            count -= 1
        sizes.append(count)
    found = np.zeros((*x.shape[:2], *sizes), np.float32)
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            low = [row * stride[0] - pad[0], column * stride[1] - pad[1]]
            high = [min(low[i] + kernel[i], x.shape[2 + i] + pad[i]) for i in (0, 1)]
            area = (high[0] - low[0]) * (high[1] - low[1])
            part = x[:, :, max(low[0], 0) : high[0], max(low[1], 0) : high[1]]
            found[:, :, row, column] = part.sum((2, 3)) / area if average else part.max((2, 3))
    return found


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(
    "window",
    [
        ((2, 2), (2, 2), (0, 0)),
        ((3, 3), (2, 2), (1, 1)),
        ((3, 2), (2, 3), (1, 0)),
        ((5, 4), (3, 3), (2, 2)),
        ((2, 3), (1, 2), (1, 2)),
        ((3, 3), (3, 3), (1, 1)),
    ],
)
@pytest.mark.parametrize("size", [(5, 8), (7, 7), (6, 11)])
def test_pooling_is_exactly_caffes(size: tuple[int, int], window: Any, ceil: bool, average: bool) -> None:
    kernel, stride, pad = window
    x = rand(2, 3, *size, low=-3, high=-1)  # negative, so that a padding that counts for the maximum would show
    pads = [pad[0], pad[0], pad[1], pad[1]]
    (found,) = op(
        "Pooling", x, mode=int(average), window=list(kernel), stride=list(stride), pad=pads, ceil_mode=int(not ceil)
    )
    close(found, caffe_pool(x, kernel, stride, pad, average, ceil))


@pytest.mark.parametrize("method", [0, 1])
def test_spp_is_a_pyramid_of_poolings(method: int) -> None:
    x = rand(2, 3, 9, 10)
    parts = []
    for bins in (1, 2, 4):
        kernel = (math.ceil(9 / bins), math.ceil(10 / bins))
        pad = ((kernel[0] * bins - 9 + 1) // 2, (kernel[1] * bins - 10 + 1) // 2)
        parts.append(caffe_pool(x, kernel, kernel, pad, bool(method), True).reshape(2, -1))
    close(op("SPP", x, pyramid_height=3, pool_method=method)[0], np.concatenate(parts, 1))


def test_a_window_outside_is_refused() -> None:
    with pytest.raises(AtcError, match="outside"):
        op("Pooling", rand(1, 1, 5, 5), window=[1, 1], stride=[3, 3])


# ---- convolution -----------------------------------------------------------------------------------------------------


def convolve(x: Array, w: Array, stride: int) -> Array:
    rows, columns = [(size - k) // stride + 1 for size, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    found = np.zeros((len(x), len(w), rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            part = x[:, :, row * stride : row * stride + w.shape[2], column * stride : column * stride + w.shape[3]]
            found[:, :, row, column] = np.einsum("nchw,ochw->no", part, w)
    return found


def test_conv2d_in_every_layout() -> None:
    x, w, bias = rand(2, 3, 7, 8), rand(4, 3, 3, 2), rand(4)
    wanted = convolve(np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)]), w, 2) + bias[:, None, None]
    pads = [1, 0, 0, 2]
    close(op("Conv2D", x, w, bias, strides=[1, 1, 2, 2], pads=pads, data_format="NCHW")[0], wanted)
    close(op("Conv2D", x, w, bias, strides=[2, 2], pads=pads, data_format="NCHW", dilations=[1, 1])[0], wanted)
    nhwc = [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), bias]
    close(op("Conv2D", *nhwc, strides=[1, 2, 2, 1], pads=pads, data_format="NHWC")[0], wanted.transpose(0, 2, 3, 1))


def test_conv2d_padding_same_as_tensorflow() -> None:
    x, w = rand(1, 6, 5, 3), rand(3, 3, 3, 2)
    padded = np.pad(x, [(0, 0), (0, 1), (1, 1), (0, 0)]).transpose(0, 3, 1, 2)
    wanted = convolve(padded, w.transpose(3, 2, 0, 1), 2).transpose(0, 2, 3, 1)
    close(op("Conv2D", x, w, strides=[1, 2, 2, 1], pads=[0, 0, 0, 0], padding="SAME", data_format="NHWC")[0], wanted)


# ---- elementwise and shapes ------------------------------------------------------------------------------------------

X = rand(2, 4, 5, 6)
SIMPLE: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "AxpyV1": ([rand(2, 4), X, rand(2, 4, 5, 6, seed=3)], {}, rand(2, 4)[:, :, None, None] * X + rand(2, 4, 5, 6, seed=3)),
    "BatchMatMul": ([rand(2, 3, 4), rand(2, 5, 4, seed=2)], {"adj_x2": True}, rand(2, 3, 4) @ rand(2, 5, 4, seed=2).transpose(0, 2, 1)),
    "Bias": ([X, rand(4, 5)], {"axis": 1, "num_axes": 2}, X + rand(4, 5)[:, :, None]),
    "Clip": ([X], {"min": -0.2, "max": 0.4}, X.clip(-0.2, 0.4)),
    "FullyConnection": ([X, rand(30, 3), rand(3)], {"num_output": 3, "axis": 2, "transpose": True}, X.reshape(2, 4, 30) @ rand(30, 3) + rand(3)),
    "MVN": ([X], {"eps": 0.1}, (X - X.mean((2, 3), keepdims=True)) / (X.std((2, 3), keepdims=True) + 0.1)),
    "Mish": ([X], {}, X * np.tanh(np.log1p(np.exp(X)))),
    "MatrixInverse": ([rand(2, 3, 3)], {}, np.linalg.inv(rand(2, 3, 3).astype(np.float64)).astype(np.float32)),
    "Normalize": ([X, np.array([3.0], np.float32)], {"across_spatial": True}, 3 * X / np.sqrt((X**2).sum((1, 2, 3), keepdims=True))),
    "Permute": ([X], {"order": [2, 0]}, X.transpose(2, 0, 1, 3)),
    "Reduction": ([X], {"operation": "SUMSQ", "axis": 2, "coeff": 0.5}, (X**2).sum((2, 3)) / 2),
    "ReverseV2D": ([X], {"axis": [1, -1]}, X[:, ::-1, :, ::-1]),
    "ShuffleChannel": ([X], {"group": 2}, X[:, [0, 2, 1, 3]]),
    "Threshold": ([X], {"threshold": 0.1}, (X > 0.1).astype(np.float32)),
    "TileWithAxis": ([X], {"tiles": 3, "axis": 2}, np.tile(X, (1, 1, 3, 1))),
    "Upsample": ([X], {"stride_h": 2, "stride_w": 3, "scale": 0.5}, X.repeat(2, 2).repeat(3, 3) / 2),
    "Power": ([X], {"power": 3.0, "scale": 2.0, "shift": 1.0}, (2 * X + 1) ** 3),
    "Eltwise": ([X, 2 * X, X * X], {"N": 3, "mode": 1, "coeff": [1.0, 0.5, -1.0]}, X + X - X * X),
}  # fmt: skip


@pytest.mark.parametrize("kind", SIMPLE)
def test_a_plain_operator(kind: str) -> None:
    inputs, attrs, wanted = SIMPLE[kind]
    close(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-4 if kind == "MatrixInverse" else 1e-5)


@pytest.mark.parametrize("word", ["SUM", "ASUM", "SUMSQ", "MEAN"])
def test_reduction_of_everything(word: str) -> None:
    wanted = {"SUM": X.sum(), "ASUM": np.abs(X).sum(), "SUMSQ": (X**2).sum(), "MEAN": X.mean()}[word]
    close(op("Reduction", X, operation=word)[0], np.asarray(wanted), 1e-4)


def test_bn_inference_divides_by_its_count() -> None:
    mean, variance, gamma, beta = rand(4), rand(4, low=0.1, seed=2), rand(4, seed=3), rand(4, seed=4)
    column = (slice(None), None, None)
    wanted = (X - (mean / 2)[column]) / np.sqrt(variance / 2 + 1e-3)[column] * gamma[column] + beta[column]
    close(op("BNInference", X, mean, variance, np.array([2.0], np.float32), gamma, beta, epsilon=1e-3)[0], wanted)
    empty = op("BNInference", X, mean, variance, np.zeros(1, np.float32), epsilon=1.0)[0]
    close(empty, X)  # a count of 0 means statistics of 0


def reorg(x: Array, stride: int, forward: bool) -> Array:
    """darknet's loop over a flat buffer."""
    n, c, h, w = x.shape
    out_c, flat, found = c // stride**2, x.reshape(-1), np.zeros(x.size, x.dtype)
    for b in range(n):
        for k in range(c):
            for j in range(h):
                for i in range(w):
                    here = i + w * (j + h * (k + c * b))
                    offset = k // out_c
                    there = (
                        i * stride
                        + offset % stride
                        + w * stride * (j * stride + offset // stride + h * stride * (k % out_c + out_c * b))
                    )
                    if forward:
                        found[there] = flat[here]
                    else:
                        found[here] = flat[there]
    return found


def test_pass_through_is_darknets_reorg() -> None:
    x = rand(2, 8, 4, 6)
    close(op("PassThrough", x, stride=2)[0], reorg(x, 2, False).reshape(2, 32, 2, 3))
    close(op("PassThrough", x, stride=2, reverse=True)[0], reorg(x, 2, True).reshape(2, 2, 8, 12))


def test_interp_keeps_the_corners() -> None:
    x = rand(1, 2, 6, 7)
    inner = x[:, :, 1:5, 1:6]
    (found,) = op("Interp", x, zoom_factor=2, pad_beg=-1, pad_end=-1)
    rows, columns = np.linspace(0, 3, 7), np.linspace(0, 4, 9)
    y, z = np.minimum(rows.astype(int), 2), np.minimum(columns.astype(int), 3)
    v, u = (rows - y)[:, None], columns - z
    top = inner[:, :, y][..., z] * (1 - u) + inner[:, :, y][..., z + 1] * u
    bottom = inner[:, :, y + 1][..., z] * (1 - u) + inner[:, :, y + 1][..., z + 1] * u
    close(found, (top * (1 - v) + bottom * v).astype(np.float32))


# ---- recurrent layers ------------------------------------------------------------------------------------------------


def lstm(
    x: Array, cont: Array, w: Array, b: Array, u: Array, h: Array, c: Array, static: Array
) -> tuple[Array, Array, Array]:
    found = []
    for step, mark in zip(x, cont, strict=True):
        gates = step @ w.T + b + static + (h * mark[:, None]) @ u.T
        i, f, o, g = np.split(gates, 4, 1)
        c = mark[:, None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack(found), h[None], c[None]


CONT = np.array([[0, 1], [1, 1], [0, 1], [1, 0]], np.float32)


def test_lstm_starts_again_where_a_sequence_does() -> None:
    x, w, b, u = rand(4, 2, 3), rand(20, 3), rand(20), rand(20, 5, seed=2)
    zero = np.zeros((2, 5), np.float32)
    wanted = lstm(x, CONT, w, b, u, zero, zero, np.zeros(20))
    for found, one in zip(op("LSTM", x, CONT, w, b, u, outputs=3, num_output=5), wanted, strict=True):
        close(found, one)
    static, ws, h0, c0 = rand(2, 6), rand(20, 6, seed=4), rand(1, 2, 5, seed=5), rand(1, 2, 5, seed=6)
    wanted = lstm(x, CONT, w, b, u, h0[0], c0[0], static @ ws.T)
    for found, one in zip(
        op("LSTM", x, CONT, w, b, u, static, h0, c0, ws, outputs=3, num_output=5), wanted, strict=True
    ):
        close(found, one)


def test_the_lstm_layer_of_a_net(tmp_path: Path) -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 dim: 3 } } }
    layer { name: "c" type: "ContinuationIndicator" top: "c" continuation_indicator_param { time_step: 4 batch_size: 2 } }
    layer { name: "y" type: "LSTM" bottom: "x" bottom: "c" top: "y" recurrent_param { num_output: 5 } }
    """
    x, w, b, u = rand(4, 2, 3), rand(20, 3), rand(20), rand(20, 5, seed=2)
    cont = np.ones((4, 2), np.float32)
    cont[0] = 0
    zero = np.zeros((2, 5), np.float32)
    close(run(net(tmp_path, text, {"y": [w, b, u]}), x)[0], lstm(x, cont, w, b, u, zero, zero, np.zeros(20))[0])


def test_rnn_and_its_cell() -> None:
    x, w, b, u, v, d = rand(4, 2, 3), rand(5, 3), rand(5), rand(5, 5, seed=2), rand(5, 5, seed=3), rand(5, seed=4)
    hidden, outs = rand(2, 5, seed=7), []
    start = hidden
    for step, mark in zip(x, CONT, strict=True):
        hidden = np.tanh(step @ w.T + b + (hidden * mark[:, None]) @ u.T)
        outs.append(np.tanh(hidden @ v.T + d))
    found = op("RNN", x, CONT, None, start[None], w, b, None, u, v, d, outputs=2, num_output=5)
    close(found[0], np.stack(outs))
    close(found[1], hidden[None])
    cell = op("BasicRNNCell", x[0], CONT[0], None, start, w, b, u, v, d, outputs=2, num_output=5)
    close(cell[0], outs[0])


# ---- regions and boxes -----------------------------------------------------------------------------------------------

ROIS = np.array([[0, 1, 2, 70, 90], [1, 30, 0, 100, 40], [0, 5, 5, 6, 6]], np.float32)


def roi_pool(x: Array, rois: Array, height: int, width: int, scale: tuple[float, float]) -> Array:
    found = np.zeros((len(rois), x.shape[1], height, width), np.float32)
    for index, (image, x1, y1, x2, y2) in enumerate(rois):
        left, right = (math.floor(one * scale[1] + 0.5) for one in (x1, x2))
        top, bottom = (math.floor(one * scale[0] + 0.5) for one in (y1, y2))
        high, wide = max(bottom - top + 1, 1) / height, max(right - left + 1, 1) / width
        for row in range(height):
            for column in range(width):
                rows = [
                    min(max(one + top, 0), x.shape[2]) for one in (math.floor(row * high), math.ceil((row + 1) * high))
                ]
                columns = [
                    min(max(one + left, 0), x.shape[3])
                    for one in (math.floor(column * wide), math.ceil((column + 1) * wide))
                ]
                part = x[int(image), :, rows[0] : rows[1], columns[0] : columns[1]]
                if part.size:
                    found[index, :, row, column] = part.max((1, 2))
    return found


def test_roi_pooling_with_a_scale_for_each_side() -> None:
    x = rand(2, 3, 9, 11)
    wanted = roi_pool(x, ROIS, 3, 2, (0.1, 0.125))
    close(op("ROIPooling", x, ROIS, pooled_h=3, pooled_w=2, spatial_scale_h=0.1, spatial_scale_w=0.125)[0], wanted)
    columns = np.stack([ROIS.T, ROIS.T])
    close(
        op("ROIPooling", x, columns, pooled_h=3, pooled_w=2, spatial_scale_h=0.1, spatial_scale_w=0.125)[0],
        np.concatenate([wanted, wanted]),
    )


def test_roi_align_of_a_plane_gives_the_middle_of_its_bins() -> None:
    y, x = np.meshgrid(np.arange(12.0), np.arange(14.0), indexing="ij")
    plane = (3 * y + 2 * x)[None, None].astype(np.float32)
    rois = np.array([[0, 4, 6, 20, 14]], np.float32)
    for mode, (begin, grow) in {0: (0, 0), 1: (0, 1), 3: (-0.5, 0)}.items():
        (found,) = op(
            "ROIAlign", plane, rois, spatial_scale=0.5, pooled_height=2, pooled_width=4, sample_num=2, roi_end_mode=mode
        )
        left, right, top, bottom = 2 + begin, (20 + grow) / 2 + begin, 3 + begin, (14 + grow) / 2 + begin
        columns = left + (np.arange(4) + 0.5) * (right - left) / 4
        rows = top + (np.arange(2) + 0.5) * (bottom - top) / 2
        close(found[0, 0], (3 * rows[:, None] + 2 * columns).astype(np.float32))


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
    found = run(net(tmp_path, text), x, ROIS)[0]
    close(found, other.forward("y").reshape(found.shape))


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
    rois, number = run(net(tmp_path, ours), prob, delta, info)
    other = cv2.dnn.readNetFromCaffe(*map(str, write(tmp_path, theirs)))
    for name, one in (("p", prob), ("d", delta), ("i", info)):
        other.setInput(one, name)
    assert 0 < number[0, 0] < 32
    count = int(number[0, 0])
    assert not rois[0, :, count:].any()
    close(rois[0].T[:count], other.forward("y").reshape(-1, 5)[:count], 1e-3)


# ---- SSD ---- ----------------------------------------------------------------------------------------------------


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
    close(y[0, 0], np.array([0, 1, 0.9, 0.1, 0.1, 0.3, 0.3, 0], np.float32))
    close(y[0, 1], np.array([0, 2, 0.6, 0.78 - 0.3, 0.6, 0.78 + 0.3, 0.9, 0], np.float32))
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
    close(y[0, 0, 3:7], (anchors[0, 0] + 0.1 * delta[0] * side).astype(np.float32))
