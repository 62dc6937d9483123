"""Colour matrices: the numbers of the manual and of the standards, and that both directions fit together."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels import csc

# Y gain, V to R, U to G, V to G, U to B, as published.
COEFFICIENTS = {
    0: (1, 1.402, -0.344, -0.714, 1.772),
    1: (1.16438, 1.59602, -0.39176, -0.81297, 2.01723),
    2: (1, 1.5748, -0.1873, -0.4681, 1.8556),
    3: (1.16438, 1.79274, -0.21325, -0.53291, 2.11240),
    4: (1, 1.4746, -0.16455, -0.57135, 1.8814),
    5: (1.16438, 1.67867, -0.18733, -0.65042, 2.14177),
}


@pytest.mark.parametrize("number", COEFFICIENTS)
def test_to_rgb_has_the_published_coefficients(number: int) -> None:
    y, r_v, g_u, g_v, b_u = COEFFICIENTS[number]
    rows = csc.matrix(number).to_rgb
    assert rows.dtype == np.float32
    assert rows[:, :3] == pytest.approx(np.array([[y, 0, r_v], [y, g_u, g_v], [y, b_u, 0]]), abs=5e-5)
    black = (16 if number % 2 else 0, 128, 128)
    assert rows[:, :3] @ black + rows[:, 3] == pytest.approx([0, 0, 0], abs=1e-4)


def test_default_towards_yuv_is_as_printed() -> None:
    assert csc.DEFAULT == 0
    assert csc.matrix(0).to_yuv == pytest.approx(
        np.array([[0.299, 0.587, 0.114, -0.5], [-0.168, -0.331, 0.5, 127.5], [0.5, -0.419, -0.081, 127.5]])
    )


@pytest.mark.parametrize("number", range(1, 6))
def test_directions_are_inverse(number: int) -> None:
    matrices = csc.matrix(number)
    rgb = np.random.default_rng(number).uniform(0, 255, (100, 3))
    yuv = rgb @ matrices.to_yuv[:, :3].T + matrices.to_yuv[:, 3]
    back = yuv @ matrices.to_rgb[:, :3].T + matrices.to_rgb[:, 3]
    assert back == pytest.approx(rgb, abs=1e-3)


@pytest.mark.parametrize(("number", "white"), [(0, 255), (1, 235), (2, 255), (3, 235), (4, 255), (5, 235)])
def test_range(number: int, white: int) -> None:
    grey = np.array([[[level] * 3 for level in range(256)]], np.uint8)
    yuv = cv2.transform(grey, csc.matrix(number).yuv_from("rgb", "yuv"))
    assert yuv[0, 255].tolist() == [white, 128, 128]
    assert (yuv[..., 1:] == 128).all()
    if white == 255:
        assert (yuv[..., 0] == grey[..., 0]).all()


def test_order_of_channels() -> None:
    matrices = csc.matrix(1)
    straight = matrices.rgb_from("yuv", "rgb")
    turned = matrices.rgb_from("yvu", "bgr")
    assert (turned == straight[::-1][:, [0, 2, 1, 3]]).all()
    assert matrices.yuv_from("bgr", "yvu")[2, 0] == matrices.to_yuv[1, 2]


@pytest.mark.parametrize("number", [-1, 6, 100, 1 << 40])
def test_unknown_number(number: int) -> None:
    with pytest.raises(NpuError) as caught:
        csc.matrix(number)
    assert caught.value.code == codes.INVALID_PARAM
    assert str(number) in caught.value.text


def test_user_matrix() -> None:
    to_rgb, to_yuv = [*range(12)], [*range(12, 24)]
    own = csc.user(to_rgb, to_yuv)
    assert own.to_rgb.tolist() == [[0, 1, 2, 9], [3, 4, 5, 10], [6, 7, 8, 11]]
    assert own.to_yuv[0].tolist() == [12, 13, 14, 21]


@pytest.mark.parametrize("values", [[1.0] * 11, [1.0] * 13, [float("nan")] * 12, [float("inf")] * 12, []])
def test_user_matrix_that_is_none(values: list[float]) -> None:
    with pytest.raises(NpuError) as caught:
        csc.user([1.0] * 12, values)
    assert caught.value.code == codes.INVALID_PARAM
    assert "rgb_to_yuv" in caught.value.text
