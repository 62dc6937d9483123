"""Quantised numbers and their products against NumPy."""

from __future__ import annotations

import numpy as np

from tests.unit.ops.support import RNG, Const, close, floats, run


def test_quantising() -> None:
    x = floats(4, 6) * 40
    expected = np.clip(np.rint(x * np.float32(1.5) + 3), -128, 127)
    np.testing.assert_array_equal(run("AscendQuant", [x], scale=1.5, offset=3.0)[0], expected.astype(np.int8))
    scale, offset = np.abs(floats(6)) + 0.5, floats(6)
    expected = np.clip(np.rint(x * scale + offset), -128, 127)
    np.testing.assert_array_equal(run("AscendQuantV2", [x, scale, offset])[0], expected.astype(np.int8))
    np.testing.assert_array_equal(
        run("AscendQuant", [x], scale=1.0, offset=0.0, round_mode="Floor")[0], np.clip(np.floor(x), -128, 127)
    )
    expected = np.clip(np.rint(x / 0.5) + 10, 0, 255)
    half = np.array([0.5], np.float32)
    np.testing.assert_array_equal(
        run("Quantize", [x, half, np.array([10], np.int32)], dtype="torch.quint8")[0], expected.astype(np.uint8)
    )
    y, scales = run("DynamicQuant", [x.astype(np.float16)], outputs=2)
    wide = x.astype(np.float16).astype(np.float32)
    close(scales, np.abs(wide).max(1) / 127)
    assert np.abs(y - wide / (np.abs(wide).max(1, keepdims=True) / 127)).max() <= 0.5001


def test_dequantising() -> None:
    x, scale = RNG.integers(-1000, 1000, (2, 3, 4), np.int32), np.abs(floats(3)) + 0.1
    expected = x * scale[None, :, None]
    close(run("AscendDequant", [x, scale])[0], expected, 1e-4)
    words = Const(scale.view(np.uint32).astype(np.uint64))
    close(run("AscendDequant", [x, words], relu_flag=True)[0], np.maximum(expected, 0), 1e-4)
    a, b = RNG.integers(-128, 128, (4, 6), np.int8), RNG.integers(-128, 128, (5, 6), np.int8)
    column, row, bias = np.abs(floats(5)), np.abs(floats(4)), RNG.integers(-9, 9, 5, np.int32)
    product = (a.astype(np.int64) @ b.T.astype(np.int64) + bias) * column * row[:, None]
    close(run("QuantBatchMatmulV3", [a, b, column, None, bias, row], dtype=0, transpose_x2=True)[0], product, 1e-3)
    x2, offset = floats(3, 6), floats(5)
    expected = x2 @ ((b.T + offset) * column)
    close(run("WeightQuantBatchMatmulV2", [x2, b.T.copy(), column, offset])[0], expected, 1e-3)
