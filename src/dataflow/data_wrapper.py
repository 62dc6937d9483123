"""Numbers of element types, under the names of the layer below the real face."""

from softnpu.flow.values.dtypes import DataType

__all__ = ["DataType"]

FuncDataType = DataType
