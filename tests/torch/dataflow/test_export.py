"""npu_model at level 2: modules exported to models, against the eager module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from torch import nn

from softnpu.flow import codes
from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.drawing.decorate import method
from softnpu.flow.drawing.npu_model import npu_model
from softnpu.flow.drawing.points import Framework
from softnpu.flow.errors import DfException
from softnpu.flow.message import TORCH_TENSOR, Message
from softnpu.flow.models import build
from softnpu.flow.values import codec, dtypes, torch_door
from softnpu.flow.values.tensor import TensorDesc
from tests.torch.dataflow.runs import Sink

ROW = TensorDesc(dtypes.DT_FLOAT, [-1, 4])


class Eager(nn.Module):
    """Convolution, normalisation, and something that depends on the batch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 5)

    def forward(self, x: Any) -> Any:
        seen = F.relu(self.norm(self.conv(x)))
        return F.softmax(self.head(seen.mean((2, 3))), dim=-1), seen.flatten(1)


def model_body(node: Any) -> Any:
    source = build.ModelSource(
        node.point.framework.value, node.point.graph_file, node.name, node.input_num, node.output_num
    )
    body = load(build.build(source))
    body.start(InstanceInfo(node.name, node.input_num, node.output_num))
    return body


@pytest.mark.parametrize(("shape", "good", "bad"), [([-1, 3, 8, 8], (1, 2, 7), ()), ([2, 3, 8, 8], (2,), (1, 3))])
def test_level_2_gives_what_the_eager_module_gives(shape: list[int], good: Any, bad: Any) -> None:
    @npu_model(optimize_level=2, input_descs=[TensorDesc(dtypes.DT_FLOAT, shape)])
    class Net(Eager):
        @method(num_returns=2)
        def forward(self, x: Any) -> Any:
            return Eager.forward(self, x)

    node = Net.fnode(4)
    assert node.point.framework is Framework.MINDSPORE and node.point.graph_file.endswith("export.air")
    assert (node.input_num, node.output_num, node.attributes["_npu_sched_model"]) == (1, 2, 1)
    body, eager = model_body(node), Eager(4).eval()
    for batch in good:
        x = torch.randn(batch, 3, 8, 8)
        sink = Sink()
        assert body.call(0, [Message(torch_door.local(x.npu()), TORCH_TENSOR)], sink) == 0
        for index, wanted in enumerate(eager(x)):
            result = torch.from_numpy(codec.decode_tensor(sink.sent[index]).copy())
            torch.testing.assert_close(result, wanted.detach(), rtol=1e-4, atol=1e-5)
    for batch in bad:
        message = Message(codec.encode_tensor(np.zeros((batch, 3, 8, 8), np.float32)))
        assert body.call(0, [message], Sink()) == codes.SHAPE_INVALID
    half = Message(codec.encode_tensor(np.zeros((2, 3, 8, 8), np.float16)))
    assert body.call(0, [half], Sink()) == codes.DATATYPE_INVALID


def test_level_2_takes_types_from_the_descriptions_and_wires_forward() -> None:
    descs = [TensorDesc(dtypes.DT_INT64, [2, 1, 4]), TensorDesc(dtypes.DT_FLOAT, [2, 1, 4])]

    @npu_model(optimize_level=2, input_descs=descs)
    class Sum(nn.Module):
        @method()
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

    node = Sum.fnode()
    assert callable(node.forward) and node.name.startswith("Sum_fnode")
    a, b = np.arange(8).reshape(2, 1, 4), np.full((2, 1, 4), 0.5, np.float32)
    sink = Sink()
    assert model_body(node).call(0, [Message(codec.encode_tensor(a)), Message(codec.encode_tensor(b))], sink) == 0
    np.testing.assert_array_equal(codec.decode_tensor(sink.sent[0]), (a + b).astype(np.float32))


def test_level_2_refuses_what_is_no_graph() -> None:
    @npu_model(optimize_level=2, input_descs=[ROW])
    class Plain:
        @method()
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        Plain.fnode()

    @npu_model(optimize_level=2, input_descs=[ROW])
    class Breaks(nn.Module):
        @method()
        def forward(self, x: Any) -> Any:
            raise ValueError("not today")

    with pytest.raises(DfException, match="not today"):
        Breaks.fnode()

    @npu_model(optimize_level=2, input_descs=[ROW])
    class Counts(nn.Module):
        @method(num_returns=3)
        def forward(self, x: Any) -> Any:
            return x + 1, x + 2

    with pytest.raises(DfException, match="gives 2 tensors, 3 outputs were declared"):
        Counts.fnode()
