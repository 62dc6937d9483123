"""npu_model: the rules of the decorator, its bodies called directly, and modules exported to models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from torch import nn

from softnpu.flow import codes
from softnpu.flow.drawing.decorate import method
from softnpu.flow.drawing.npu_model import npu_model
from softnpu.flow.functions.running import get_running_device_id
from softnpu.flow.message import EOS, LOCAL, TORCH_TENSOR, Message
from softnpu.flow.values import codec, dtypes, torch_door
from softnpu.flow.values.register import msg_type_register
from softnpu.flow.values.tensor import TensorDesc
from tests.torch.dataflow.runs import Sink, call, started

ROW = TensorDesc(dtypes.DT_FLOAT, [-1, 4])


# ---- the decorator ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"optimize_level": 1},
        {"optimize_level": 2, "input_descs": [ROW]},
        {"input_descs": [ROW]},
        {"stream_input": "Queue"},
        {"choice_output": bool},
        {"unknown": 1},
        {"resources": {"gpu": 1}},
        {"env_hook_func": 5},
    ],
)
def test_options_that_a_function_cannot_have(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):

        @npu_model(**options)
        def function(x: Any) -> Any:
            return x


@pytest.mark.parametrize(
    "options",
    [
        {"optimize_level": "1"},
        {"optimize_level": True},
        {"optimize_level": 3},
        {"optimize_level": 0},
        {"optimize_level": 2},
        {"optimize_level": 2, "input_descs": []},
        {"optimize_level": 2, "input_descs": [[1, 4]]},
        {"optimize_level": 2, "input_descs": [ROW, ROW]},
    ],
)
def test_levels_are_checked_when_the_node_is_made(options: dict[str, Any]) -> None:
    @npu_model(**options)
    class Net(nn.Module):
        @method()
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(TypeError):
        Net.fnode()


def test_streams_and_other_targets_are_refused() -> None:
    def yields(x: Any) -> Any:
        yield x

    for target in (yields, 5, "text"):
        with pytest.raises(TypeError):
            npu_model()(target)

    class Streams(nn.Module):
        @method(stream_input="Queue")
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(TypeError, match="does not stream"):
        npu_model()(Streams)


def test_result_counts_and_node() -> None:
    @npu_model(num_returns=2, resources={"memory": 100, "num_cpus": 1, "num_npus": 1}, visible_device_enable=True)
    def two(a: Any, b: Any) -> Any:
        return a, b

    def annotated(a: Any) -> Any:
        return a, a, a

    annotated.__annotations__["return"] = tuple[int, int, int]
    node = two.fnode()
    assert (node.input_num, node.output_num, node.on_device) == (2, 2, True)
    assert node.point.work.resources == {"memory": 100, "num_cpus": 1, "num_npus": 1} and node.point.work.visible_device
    assert npu_model(annotated).fnode().output_num == 3
    assert msg_type_register.get_msg_type(torch.Tensor) == TORCH_TENSOR


# ---- level 1 ------------------------------------------------------------------------------------------------------------------


def test_functions_and_modules_of_the_npu_model_page_give_what_torch_gives() -> None:
    @npu_model(optimize_level=1)
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()

        @method()
        def forward(self, input_image: Any) -> Any:
            return F.interpolate(input_image, size=(6, 6), mode="bilinear")

    @npu_model()
    def postprocess(input_image: Any) -> Any:
        return input_image * 0.5 + 0.5

    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    code, [scaled] = call(started(Scaled.fnode()), image)
    assert code == 0 and scaled.device == torch.device("npu:0")
    code, [found] = call(started(postprocess.fnode()), scaled)
    assert code == 0 and found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), F.interpolate(image, size=(6, 6), mode="bilinear") * 0.5 + 0.5)


def test_npu_tensors_pass_by_as_objects() -> None:
    seen: list[int] = []

    def look(x: Any) -> Any:
        seen.append(x.data_ptr())
        return x

    made = npu_model()(look)
    body = started(made.fnode())
    body._functions = [(look, (0,))]  # the body has its own copy of the function
    tensor = torch.ones(3).npu()
    code, [found] = call(body, tensor)
    assert code == 0 and found is tensor and seen == [tensor.data_ptr()]


def test_module_has_its_parameters_on_the_device_and_keeps_no_gradients() -> None:
    @npu_model()
    class Net(nn.Module):
        def __init__(self, width: int, *, bias: bool = True) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layer = nn.Linear(4, width, bias=bias)

        @method(num_returns=2)
        def forward(self, x: Any) -> Any:
            return self.layer(x), torch.full((1,), float(get_running_device_id()), device=x.device)

        def helper(self, x: Any) -> Any:
            return x

    torch.manual_seed(1)
    layer = nn.Linear(4, 3, bias=False)
    x = torch.randn(2, 4)
    body = started(Net.fnode(3, bias=False), device=1)
    code, [found, device] = call(body, x)
    assert code == 0 and found.device == torch.device("npu:1") and not found.requires_grad and device.item() == 1
    torch.testing.assert_close(found.cpu(), layer(x).detach())


def test_several_methods_write_their_own_outputs() -> None:
    @npu_model()
    class Two(nn.Module):
        @method()
        def double(self, x: Any) -> Any:
            return x * 2

        @method(num_returns=2)
        def split(self, x: Any) -> Any:
            return x[:1], x[1:]

    node = Two.fnode()
    body = started(node)
    sink = Sink()
    message = Message(torch_door.local(torch.arange(3.0)), TORCH_TENSOR)
    assert body.call(1, [message], sink) == 0 and sorted(sink.sent) == [1, 2]
    assert body.call(0, [message], sink) == 0 and sink.sent[0].payload.value.tolist() == [0, 2, 4]
    assert sink.sent[2].payload.value.tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["torch.float32", "torch.bfloat16", "torch.int64", "torch.bool", "torch.uint8"])
def test_inputs_may_come_in_any_form(kind: str) -> None:
    body = started(npu_model()(lambda x: x).fnode())
    given = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, kind.removeprefix("torch.")))
    meta, chunks = torch_door.to_chunks(given)
    forms = [
        Message(torch_door.local(given), TORCH_TENSOR),
        Message(codec.Payload(codec.CUSTOM, meta, [bytes(chunks[0])]), TORCH_TENSOR),
        Message(codec.Payload(codec.CUSTOM, b"", [torch_door.serialize(given)]), TORCH_TENSOR),
    ]
    if given.dtype != torch.bfloat16:
        forms.append(Message(codec.encode_tensor(given.numpy())))
    for form in forms:
        code, [found] = call(body, form)
        assert code == 0 and found.device.type == "npu" and found.dtype == given.dtype
        assert torch.equal(found.cpu(), given)


@pytest.mark.parametrize(
    ("result", "outputs", "text"),
    [
        (lambda x: x.cpu(), 1, "lies on cpu; it must be an npu tensor"),
        (lambda x: 5, 1, "is a int; it must be an npu tensor"),
        (lambda x: None, 1, "is a NoneType"),
        (lambda x: [x, x], 2, "must return a tuple of 2 tensors, not a list of 2"),
        (lambda x: (x, x, x), 2, "not a tuple of 3"),
        (lambda x: x + "a", 1, "TypeError"),
    ],
)
def test_wrong_results_fail_the_call(result: Any, outputs: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = started(npu_model(num_returns=outputs)(result).fnode())
    assert call(body, torch.ones(2)) == (codes.FUNC_FAILED, [])
    assert text in capsys.readouterr().out


def test_end_of_stream_passes_and_missing_data_fails() -> None:
    body = started(npu_model()(lambda a, b: a + b).fnode())
    empty = Message()
    empty.flags = EOS
    sink = Sink()
    assert body.call(0, [empty, empty], sink) == 0
    assert sink.sent[0].null and sink.sent[0].flags == EOS
    assert call(body, torch.ones(2), Message())[0] == codes.FUNC_FAILED
    assert call(body, torch.ones(2), Message(codec.Payload(codec.PICKLE, b"", (b"",)), 65535))[0] == codes.FUNC_FAILED


def test_payload_of_a_level_1_result_is_the_tensor_itself() -> None:
    sink = Sink()
    started(npu_model()(lambda x: x).fnode()).call(0, [Message(torch_door.local(torch.ones(1)), TORCH_TENSOR)], sink)
    assert sink.sent[0].payload.form == LOCAL and sink.sent[0].msg_type == TORCH_TENSOR
