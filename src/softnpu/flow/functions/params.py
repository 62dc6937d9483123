"""PyMetaParams: what a function is told when it is initialised."""

from __future__ import annotations

from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.body import InstanceInfo
from softnpu.flow.values import dtypes
from softnpu.flow.values.dtypes import DType


class PyMetaParams:
    """Where the function runs and what `set_init_param` gave it."""

    def __init__(self, instance: InstanceInfo) -> None:
        self._instance = instance
        self._attributes = instance.attributes

    def get_name(self) -> str:
        """Name of the node."""
        return self._instance.node

    def get_input_num(self) -> int:
        """Inputs of the node."""
        return self._instance.input_num

    def get_output_num(self) -> int:
        """Outputs of the node."""
        return self._instance.output_num

    def get_work_path(self) -> str:
        """Directory of the node's files."""
        return self._instance.work_path

    def get_running_device_id(self) -> int:
        """The device of this instance."""
        return self._instance.device_id

    def get_running_instance_id(self) -> int:
        """The number of this instance."""
        return self._instance.instance_id

    def get_running_instance_num(self) -> int:
        """Instances of the node."""
        return self._instance.instance_num

    def _get(self, name: str, kind: type, depth: int, filler: Any) -> tuple[int, Any]:
        if name not in self._attributes:
            log.error("node %s has no attribute %r; it has %s", self.get_name(), name, sorted(self._attributes))
            return codes.FUNC_ATTR_NOT_EXISTS, filler
        value = self._attributes[name]
        if not _fits(value, kind, depth):
            log.error("attribute %r of node %s is %r, not what was asked for", name, self.get_name(), value)
            return codes.FUNC_ATTR_TYPE_MISMATCH, filler
        return codes.SUCCESS, _plain(value)

    def get_attr_int(self, name: str) -> tuple[int, int]:
        """(code, value)."""
        return self._get(name, int, 0, -1)

    def get_attr_int_list(self, name: str) -> tuple[int, list[int]]:
        """(code, values)."""
        return self._get(name, int, 1, [])

    def get_attr_int_list_list(self, name: str) -> tuple[int, list[list[int]]]:
        """(code, lists of values)."""
        return self._get(name, int, 2, [])

    def get_attr_bool(self, name: str) -> tuple[int, bool]:
        """(code, value)."""
        return self._get(name, bool, 0, False)

    def get_attr_bool_list(self, name: str) -> tuple[int, list[bool]]:
        """(code, values)."""
        return self._get(name, bool, 1, [])

    def get_attr_float(self, name: str) -> tuple[int, float]:
        """(code, value)."""
        return self._get(name, float, 0, 0.0)

    def get_attr_float_list(self, name: str) -> tuple[int, list[float]]:
        """(code, values)."""
        return self._get(name, float, 1, [])

    def get_attr_str(self, name: str) -> tuple[int, str]:
        """(code, value)."""
        return self._get(name, str, 0, "")

    def get_attr_str_list(self, name: str) -> tuple[int, list[str]]:
        """(code, values)."""
        return self._get(name, str, 1, [])

    def get_attr_tensor_dtype(self, name: str) -> tuple[int, Any]:
        """(code, NumPy type); every failure is 164001."""
        code, value = self._get(name, DType, 0, None)
        return (codes.FUNC_ATTR_NOT_EXISTS, None) if code else (code, dtypes.numpy_type(value))

    def get_attr_tensor_dtype_list(self, name: str) -> tuple[int, list[Any]]:
        """(code, NumPy types); every failure is 164001."""
        code, values = self._get(name, DType, 1, [])
        return (codes.FUNC_ATTR_NOT_EXISTS, []) if code else (code, [dtypes.numpy_type(value) for value in values])


def _fits(value: Any, kind: type, depth: int) -> bool:
    if depth:
        return isinstance(value, list | tuple) and all(_fits(item, kind, depth - 1) for item in value)
    return type(value) is kind


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
