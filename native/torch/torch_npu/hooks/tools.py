"""Comparing what two runs wrote."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np

from torch_npu._errors import ErrCode, pta_error

__all__ = ["compare"]

_COLUMNS = (
    "NPU Name", "Bench Name", "NPU Tensor Dtype", "Bench Tensor Dtype", "NPU Tensor Shape", "Bench Tensor Shape", "Cosine",
    "MaxAbsErr", "NPU max", "NPU min", "NPU mean", "Bench max", "Bench min", "Bench mean",
)  # fmt: skip
_NOTHING = ["", "", ""]


def _read(path: str) -> dict[str, list[Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return {name: rest for name, *rest in rows}
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is no file of torch_npu.hooks.register_acc_cmp_hook ({error})" + pta_error(ErrCode.VALUE)
        ) from error


def _measures(mine: list[float], other: list[float]) -> tuple[str, str]:
    """Cosine of the angle between two vectors, and their largest difference."""
    first, second = np.asarray(mine, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if first.shape != second.shape or not first.size:
        return "unsupported", "unsupported"
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    same = bool(np.array_equal(first, second))
    cosine = float(first @ second) / length if length else float(same)
    return f"{cosine:.6f}", f"{np.abs(first - second).max():.6g}"


def compare(npu_pkl_path: str, bench_pkl_path: str, output_path: str) -> None:
    """Write a CSV table with a row for each tensor that both runs have."""
    npu, bench = _read(npu_pkl_path), _read(bench_pkl_path)
    with open(output_path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_COLUMNS)
        for name, (values, dtype, shape, summary) in npu.items():
            if name not in bench:
                continue
            other_values, other_dtype, other_shape, other_summary = bench[name]
            head = [name, name, dtype, other_dtype, shape, other_shape]
            table.writerow(
                [*head, *_measures(values, other_values), *(summary or _NOTHING), *(other_summary or _NOTHING)]
            )
