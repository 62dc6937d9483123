"""Colour jitter as one matrix: brightness, contrast, saturation and hue of an image in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from torch_npu._errors import ErrCode, pta_error

_GREY = np.array([0.299, 0.587, 0.114])
_TO_YIQ = np.array([_GREY, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


def _range(name: str, value: float | Sequence[float], centre: float, low: float, high: float) -> tuple[float, float]:
    bounds = (centre - value, centre + value) if isinstance(value, int | float) else tuple(value)
    bounds = (max(bounds[0], low), bounds[1]) if centre else bounds
    if len(bounds) != 2 or not low <= bounds[0] <= bounds[1] <= high:
        raise ValueError(
            f"FusedColorJitter: {name} {value!r} does not lie in {low} to {high}; give a number or a pair"
            + pta_error(ErrCode.VALUE)
        )
    return bounds[0], bounds[1]


class FusedColorJitter(torch.nn.Module):
    """Random brightness, contrast, saturation and hue, in this order, clipped once. Takes a PIL image or a uint8 array [H, W, 3]."""

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        self.brightness = _range("brightness", brightness, 1, 0, math.inf)
        self.contrast = _range("contrast", contrast, 1, 0, math.inf)
        self.saturation = _range("saturation", saturation, 1, 0, math.inf)
        self.hue = _range("hue", hue, 0, -0.5, 0.5)

    @staticmethod
    def matrix(brightness: float, contrast: float, saturation: float, hue: float, mean: float) -> np.ndarray:
        """The transform [3, 4] of colours; `mean` is that of the grey image, which contrast moves away from."""
        grey = np.tile(_GREY, (3, 1))
        result = np.eye(3, 4) * brightness
        result = result * contrast
        result[:, 3] = (1 - contrast) * mean * brightness
        result = (saturation * np.eye(3) + (1 - saturation) * grey) @ result
        cos, sin = math.cos(2 * math.pi * hue), math.sin(2 * math.pi * hue)
        turn = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
        return np.linalg.inv(_TO_YIQ) @ turn @ _TO_YIQ @ result

    def forward(self, img: Any) -> Any:
        pixels = np.asarray(img)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise TypeError(
                f"FusedColorJitter takes an RGB image, not {pixels.dtype} {list(pixels.shape)}"
                + pta_error(ErrCode.TYPE)
            )
        brightness, contrast, saturation, hue = (
            float(torch.empty(1).uniform_(*limits))
            for limits in (self.brightness, self.contrast, self.saturation, self.hue)
        )
        transform = self.matrix(brightness, contrast, saturation, hue, float((pixels @ _GREY).mean()))
        colours = pixels @ transform[:, :3].T + transform[:, 3]
        result = colours.round().clip(0, 255).astype(np.uint8)
        return result if isinstance(img, np.ndarray) else _image(result)


def _image(pixels: np.ndarray) -> Any:
    from PIL import Image  # optional: only programs that pass PIL images need it

    return Image.fromarray(pixels)
