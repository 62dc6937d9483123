"""The colour matrix of a channel: `sys_set_chn_csc_matrix` and its getter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softnpu import constants
from softnpu.media.pixels import csc
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import CSC, coefficients, fill_coefficients
from softnpu.media.v2.sys.system import System

_USER = constants.HI_CSC_MATRIX_USER


def _channel(system: System, module: int, number: int) -> Any:
    if module == constants.HI_ID_VPC:
        return system.vpc.get(number)
    if module == constants.HI_ID_VDEC:
        return system.vdec.get(number)
    raise himpi_error(
        "sys",
        "ILLEGAL_PARAM",
        f"module {module} has no colour matrix",
        f"use {constants.HI_ID_VPC} (HI_ID_VPC) or {constants.HI_ID_VDEC} (HI_ID_VDEC)",
    )


def set_matrix(system: System, module: int, number: int, kind: int, values: Fields) -> None:
    """Choose the matrix of a channel; the coefficients count for HI_CSC_MATRIX_USER only."""
    channel = _channel(system, module, number)
    channel.csc = _user(values) if kind == _USER else csc.matrix(kind)
    channel.csc_setting = kind, values if kind == _USER else None


def _user(values: Fields) -> csc.Csc:
    """The manual's formulas: RGB = M·(YUV - bias), and YUV = M·RGB + bias."""
    back, forth = coefficients(values.yuv_to_rgb_coefficient), coefficients(values.rgb_to_yuv_coefficient)
    if all(map(math.isfinite, back)):
        back[9:] = (-np.array(back[:9]).reshape(3, 3) @ back[9:]).tolist()
    return csc.user(back, forth)


def get_matrix(system: System, module: int, number: int) -> tuple[int, dict[str, Any]]:
    """The matrix of a channel and its coefficients."""
    channel = _channel(system, module, number)
    kind, values = getattr(channel, "csc_setting", (csc.DEFAULT, None))
    return kind, CSC.write(values if values is not None else _standard(kind))


def _standard(kind: int) -> Fields:
    """The coefficients of one of the numbered matrices. Odd numbers are of limited range: luma begins at 16."""
    values, matrix = CSC.blank(), csc.matrix(kind)
    bias = [16.0 if kind % 2 else 0.0, 128.0, 128.0]
    fill_coefficients(values.yuv_to_rgb_coefficient, [*matrix.to_rgb[:, :3].ravel().tolist(), *bias])
    fill_coefficients(
        values.rgb_to_yuv_coefficient, [*matrix.to_yuv[:, :3].ravel().tolist(), *matrix.to_yuv[:, 3].tolist()]
    )
    return values
