"""npu_model, and how torch tensors travel."""

from softnpu.flow.drawing.npu_model import npu_model as npu_model
from softnpu.flow.values.torch_door import deserialize as deserialize
from softnpu.flow.values.torch_door import register as register
from softnpu.flow.values.torch_door import serialize as serialize
from softnpu.flow.values.torch_door import size as size
