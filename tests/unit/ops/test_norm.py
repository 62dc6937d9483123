"""Normalisations and softmax against NumPy formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.caffe_support import op
from tests.unit.ops.support import (
    BLOB,
    IMAGE,
    MATRIX,
    RNG,
    Array,
    C,
    F,
    X,
    close,
    compute,
    floats,
    match,
    nchw,
    rand,
    run,
    same,
    sigmoid,
)

WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("HardMax", {}, MATRIX.max(axis=1, keepdims=True) == MATRIX),
    ("HardMax", {"axis": 0}, MATRIX.max(axis=0, keepdims=True) == MATRIX),
    ("MVNV2", {"axes": [1]}, (MATRIX - MATRIX.mean(1, keepdims=True)) / MATRIX.std(1, keepdims=True)),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


def test_the_loss_of_a_softmax() -> None:
    scores, labels = floats(4, 6), RNG.integers(0, 6, 4, np.int64)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    loss, log = run("SoftmaxCrossEntropyLoss", [scores, labels], outputs=2)
    close(loss, -logs[np.arange(4), labels].mean())
    close(log, logs)


def test_layer_norms() -> None:
    x, gamma, beta = floats(2, 3, 8), floats(8), floats(8)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    actual = run("LayerNorm", [x, gamma, beta], outputs=3, begin_norm_axis=-1, begin_params_axis=-1, epsilon=1e-5)
    for result, wanted in zip(actual, (expected, mean, variance), strict=True):
        close(result, wanted)
    actual = run("LayerNormV3", [x, gamma, beta], outputs=3, begin_norm_axis=2)
    close(actual[2], 1 / np.sqrt(variance + 1e-5))
    half = run(
        "LayerNorm",
        [x.astype(np.float16), gamma.astype(np.float16), beta.astype(np.float16)],
        outputs=3,
        begin_norm_axis=2,
    )
    assert half[0].dtype == np.float16
    close(half[0], expected, 3e-2)


def test_root_mean_square_norms() -> None:
    x, other, gamma = floats(2, 3, 8), floats(2, 3, 8), floats(8)
    rstd = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    actual = run("RmsNorm", [x, gamma], outputs=2)
    close(actual[0], x * rstd * gamma)
    close(actual[1], rstd)
    total = x + other
    rstd = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6)
    actual = run("AddRmsNorm", [x, other, gamma], outputs=3)
    close(actual[0], total * rstd * gamma)
    close(actual[2], total)
    assert run("RmsNorm", [x.astype(np.float16), gamma.astype(np.float16)], outputs=2)[1].dtype == np.float32


def test_instance_and_group_norms() -> None:
    x, gamma, beta = floats(2, 6, 4, 5), floats(6), floats(6)
    scale, shift = gamma.reshape(1, 6, 1, 1), beta.reshape(1, 6, 1, 1)
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-6) * scale + shift
    close(run("InstanceNorm", [x, gamma, beta], outputs=3, data_format="NCHW")[0], expected)
    last = run("InstanceNorm", [x.transpose(0, 2, 3, 1).copy(), gamma, beta], outputs=3, data_format="NHWC")[0]
    close(last, expected.transpose(0, 2, 3, 1))
    flat = x.reshape(2, 3, -1)
    mean, variance = flat.mean(2), flat.var(2)
    normal = ((flat - mean[..., None]) / np.sqrt(variance[..., None] + 1e-4)).reshape(x.shape) * scale + shift
    actual = run("GroupNorm", [x, gamma, beta], outputs=3, num_groups=3, eps=1e-4)
    for result, wanted in zip(actual, (normal, mean, variance), strict=True):
        close(result, wanted)
    silu = run("GroupNormSilu", [x, gamma, beta], outputs=3, num_groups=3, eps=1e-4)
    close(silu[0], normal * sigmoid(normal))
    close(silu[2], 1 / np.sqrt(variance + 1e-4))


UNARY: dict[str, tuple[Array, Any]] = {
    "SoftmaxV2": (X, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "LogSoftmaxV2": (X, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


def test_softmax_over_several_axes() -> None:
    wanted = np.exp(X) / np.exp(X).sum((0, 2), keepdims=True)
    same(compute("SoftmaxV2", X, axes=[0, -1]), wanted)
    same(compute("LogSoftmaxV2", X, axes=[0, 2]), np.log(wanted))
    same(compute("SoftmaxV2", X, axes=[1], opset=11), np.exp(X) / np.exp(X).sum(1, keepdims=True))


def test_batch_normalisation() -> None:
    scale, offset, mean, variance = floats(3), floats(3), floats(3), np.abs(floats(3)) + F(0.5)
    wanted = (IMAGE - mean) / np.sqrt(variance + F(1e-3)) * scale + offset
    attrs = {"epsilon": 1e-3, "is_training": False}
    numbers = (scale, offset, mean, variance)
    same(compute("BatchNorm", IMAGE, *numbers, **attrs), wanted, 1e-4)
    same(
        compute("BatchNorm", nchw(IMAGE), *(C(result) for result in numbers), data_format="NCHW", **attrs),
        nchw(wanted),
        1e-4,
    )
    same(compute("BatchNorm", IMAGE[:, 0, 0], *numbers, **attrs), wanted[:, 0, 0], 1e-4)
    volume = IMAGE[:, None]
    same(compute("BatchNorm", volume, *numbers, data_format="NDHWC", **attrs), wanted[:, None], 1e-4)
    actual = compute("BatchNorm", IMAGE, *numbers, outputs=6, **attrs)
    same(actual[1], mean)
    same(actual[4], variance)
    same(compute("BatchNorm", IMAGE.astype(np.float16), *numbers, **attrs), wanted.astype(np.float16), 2e-2)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_normalisation_in_training(layout: str) -> None:
    scale, offset = floats(3), floats(3)
    mean, variance = IMAGE.mean((0, 1, 2)), IMAGE.var((0, 1, 2))
    wanted = (IMAGE - mean) / np.sqrt(variance + F(1e-3)) * scale + offset
    x = IMAGE if layout == "NHWC" else nchw(IMAGE)
    actual = compute("BatchNorm", x, scale, offset, outputs=5, epsilon=1e-3, data_format=layout, is_training=True)
    same(actual[0], wanted if layout == "NHWC" else nchw(wanted), 1e-4)
    same(actual[1], mean)
    same(actual[2], IMAGE.var((0, 1, 2), ddof=1), 1e-4)
    same(actual[4], variance, 1e-4)


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "MVN": ([BLOB], {"eps": 0.1}, (BLOB - BLOB.mean((2, 3), keepdims=True)) / (BLOB.std((2, 3), keepdims=True) + 0.1)),
    "Normalize": (
        [BLOB, np.array([3.0], np.float32)],
        {"across_spatial": True},
        3 * BLOB / np.sqrt((BLOB**2).sum((1, 2, 3), keepdims=True)),
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)


def test_bn_inference_divides_by_its_count() -> None:
    mean, variance, gamma, beta = rand(4), rand(4, low=0.1, seed=2), rand(4, seed=3), rand(4, seed=4)
    column = (slice(None), None, None)
    wanted = (BLOB - (mean / 2)[column]) / np.sqrt(variance / 2 + 1e-3)[column] * gamma[column] + beta[column]
    match(op("BNInference", BLOB, mean, variance, np.array([2.0], np.float32), gamma, beta, epsilon=1e-3)[0], wanted)
    empty = op("BNInference", BLOB, mean, variance, np.zeros(1, np.float32), epsilon=1.0)[0]
    match(empty, BLOB)  # a count of 0 means statistics of 0
