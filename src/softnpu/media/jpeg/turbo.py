"""libturbojpeg where the system has it: JPEG straight into planes, without a detour over RGB. Being written."""

from __future__ import annotations

import ctypes

__all__ = ["ctypes"]
