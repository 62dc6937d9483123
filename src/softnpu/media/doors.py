"""The one door to each media library: loaded when first needed, and told by name when it is not there."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from softnpu.base.errors import NpuError, codes

INSTALL = "pip install 'softnpu[media]'"
_PACKAGES = {"cv2": "opencv-python-headless", "av": "av", "simplejpeg": "simplejpeg"}


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NpuError(
            codes.FEATURE_UNSUPPORTED,
            f"media processing needs the package {_PACKAGES[name]}, which cannot be imported: {error}",
            f"type: {INSTALL}",
        ) from error


@functools.cache
def cv2() -> Any:
    """OpenCV: scaling, filters, colour transforms, PNG. How many threads it uses is left to the program."""
    return _load("cv2")


@functools.cache
def av() -> Any:
    """FFmpeg through PyAV: video, and JPEG where libturbojpeg is not there."""
    return _load("av")


@functools.cache
def simplejpeg() -> Any:
    """libjpeg-turbo: JPEG encoding."""
    return _load("simplejpeg")
