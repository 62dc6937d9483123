"""Bodies of `acl.mdl`: AIPP of a loaded model."""

from __future__ import annotations

from typing import Any

from softnpu.executor import model_aipp
from softnpu.executor.aipp import AippSet
from softnpu.executor.dataset import Dataset
from softnpu.executor.models import table
from softnpu.runtime.process import process


def set_input_aipp(model_id: int, dataset: Dataset, index: int, aipp: AippSet) -> None:
    model_aipp.attach(process(), table(process()).get(model_id), dataset, index, aipp)


def set_aipp_by_input_index(model_id: int, dataset: Dataset, index: int, aipp: AippSet) -> None:
    model_aipp.attach_to_picture(process(), table(process()).get(model_id), dataset, index, aipp)


def get_aipp_type(model_id: int, index: int) -> tuple[int, int]:
    return model_aipp.kind(table(process()).get(model_id), index)


def get_first_aipp_info(model_id: int, index: int) -> dict[str, Any]:
    return model_aipp.first_info(table(process()).get(model_id), index)
