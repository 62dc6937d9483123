"""The FAQ of the porting guide: what failed there works here, and what must fail says why."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import torch
import torch.npu
from torch import nn

from tests.torch.device.chip_runs import outcomes, python

CHIP = {"SOFTNPU_TORCH": "chip", "SOFTNPU_SOC": "Ascend910A"}  # the adapter that the guide is about


@pytest.fixture(autouse=True)
def first_device() -> object:
    yield
    torch.npu.set_device("npu:0")


def test_faq_backward_on_the_cpu_then_another_device() -> None:
    """The failing order of the FAQ works here, the fixed one too: devices can be switched (but see chip mode)."""

    def run(device: str | None) -> torch.Tensor:
        source = torch.randn(200, 100).requires_grad_()
        moved = source if device is None else source.npu()
        output = torch.sum(moved)
        output.backward(torch.ones_like(output))
        assert source.grad is not None and source.grad.device.type == "cpu"
        return output

    run(None)
    torch.npu.set_device("npu:1")
    assert run("npu").device.index == 1
    torch.npu.set_device("npu:1")
    run(None)
    run("npu")


def test_faq_every_thread_has_its_own_device() -> None:
    """ExchangeDevice: a thread's device is its own; all begin with device 0."""
    seen: dict[int, tuple[int, int]] = {}

    def work(index: int) -> None:
        first = torch.npu.current_device()
        torch.npu.set_device(index)
        seen[index] = (first, torch.ones(2, device="npu").device.index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == {0: (0, 0), 1: (0, 1)}
    assert torch.npu.current_device() == 0


def test_faq_stack_of_mixed_precisions() -> None:
    """fp32 - fp16 and fp16 - fp32 have one dtype, so `stack` takes them (the FAQ's cast is not needed)."""
    xs, ys = torch.rand(224, 8).npu(), torch.rand(224, 8).npu()
    boxes = torch.rand(224, 8, 4).npu().half()
    sides = (xs - boxes[..., 0], ys - boxes[..., 1], boxes[..., 2] - xs, boxes[..., 3] - ys)
    assert {one.dtype for one in sides} == {torch.float32}
    stream = torch.npu.current_stream()
    stream.synchronize()
    targets = torch.stack(sides, -1)
    expected = (boxes[..., 2:].float() - boxes[..., :2].float()).sum()
    torch.testing.assert_close(torch.sum(targets), expected, rtol=1e-3, atol=1e-1)


def test_faq_out_of_memory_is_an_error_and_a_smaller_batch_works() -> None:
    total = torch.npu.get_device_properties(0).total_memory
    with pytest.raises(RuntimeError, match="NPU out of memory"):
        torch.empty(total + 1, dtype=torch.uint8, device="npu")
    assert torch.ones(10, device="npu").sum().item() == 10


def test_faq_trunc_and_max_pool_and_topk() -> None:
    """Operators that the FAQ misses are there: trunc with out=, max_pool2d's backward, max of int64, topk."""
    x = torch.randn(2, 3, 8, 8)
    out = torch.empty_like(x, device="npu")
    torch.testing.assert_close(torch.trunc(x.npu(), out=out).cpu(), x.trunc())
    here, there = x.clone().requires_grad_(), x.npu().requires_grad_()
    for one in (here, there):
        nn.functional.max_pool2d(one, 3, 2, 1).square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad)
    values, places = torch.topk(x.npu().flatten(), 5)
    expected = torch.topk(x.flatten(), 5)
    torch.testing.assert_close((values.cpu(), places.cpu()), tuple(expected))


def test_faq_index_put_with_a_mask_and_bce_of_integers() -> None:
    x = torch.arange(5.0, device="npu")
    x[x > 2] = -1
    assert x.tolist() == [0, 1, 2, -1, -1]
    logits, labels = torch.randn(4), torch.tensor([0, 1, 1, 0])
    expected = nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
    result = nn.functional.binary_cross_entropy_with_logits(logits.npu(), labels.npu().float())
    torch.testing.assert_close(result.cpu(), expected)


def test_faq_hook_on_a_module_that_returns_a_dict_of_losses() -> None:
    class Losses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"cls": self.fc(x).sum(), "box": self.fc(x).square().sum()}

    model = Losses().npu()
    seen: list[str] = []
    model.fc.register_full_backward_hook(lambda *_: seen.append("fc"))
    sum(model(torch.ones(1, 2, device="npu", requires_grad=True)).values()).backward()
    assert seen == ["fc", "fc"]


def test_faq_state_dict_of_a_parallel_model(tmp_path: Path) -> None:
    """Keys with the prefix `module.` are refused; without it they load, on the card that `loc` names."""
    model = nn.Sequential(nn.Linear(3, 2)).npu()
    saved = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save({"state_dict": saved}, tmp_path / "checkpoint.pth")
    loc = "npu:{}".format(1)  # noqa: UP032 as the guide writes it
    ckpt = torch.load(tmp_path / "checkpoint.pth", map_location=loc)
    assert {one.device for one in ckpt["state_dict"].values()} == {torch.device(loc)}
    other = nn.Sequential(nn.Linear(3, 2)).to(loc)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(ckpt["state_dict"])
    other.load_state_dict({key[7:]: value for key, value in ckpt["state_dict"].items()})
    assert torch.equal(other[0].weight.cpu(), model[0].weight.cpu())


def test_compile_options() -> None:
    torch.npu.set_option({"ACL_OP_DEBUG_LEVEL": 0})
    with pytest.raises(TypeError, match="must be a dict"):
        torch.npu.set_option(["ACL_OP_DEBUG_LEVEL"])


# The failing snippets, on the chip and with the adapter of the guide.

FAILING = {
    "set_device": (
        "x = torch.ones(2).npu(); torch.npu.set_device('npu:1')",
        r"RuntimeError: ExchangeDevice: this thread uses npu:0 and cannot switch to npu:1 .*ERR00001 PTA",
    ),
    "tensor.to": (
        "torch.npu.set_device('npu:0'); x = torch.ones(2).npu(); x.to('npu:1')",
        r"RuntimeError: ExchangeDevice: .*ERR00001 PTA",
    ),
    "model.to": (
        "torch.npu.set_device('npu:1'); nn.Linear(2, 2).to('npu:0')",
        r"RuntimeError: ExchangeDevice: this thread uses npu:1 and cannot switch to npu:0 .*ERR00001 PTA",
    ),
    "back again": (
        "torch.npu.set_device('npu:1'); x = torch.ones(2).npu(); torch.npu.set_device('npu:0'); torch.ones(2).npu()",
        r"RuntimeError: ExchangeDevice: .*ERR00001 PTA",
    ),
    "backward first": (
        "x = torch.randn(20, 10).requires_grad_(); torch.sum(x).backward(); torch.npu.set_device('npu:1')",
        r"RuntimeError: 0 INTERNAL ASSERT FAILED: backward ran before torch.npu.set_device.*ERR00001 PTA",
    ),
    "trunc": (
        "torch.trunc(torch.tensor([1.5]).npu())",
        r"RuntimeError: Could not run 'aten::trunc.out' with arguments from the 'NPUTensorId' backend\..*ERR01007 OPS",
    ),
    "mixed stack": (
        "torch.stack((torch.ones(2).npu(), torch.ones(2).npu().half()), -1)",
        r"RuntimeError: Run: NPU error,NPU error code is:500002\..*Float and Half.*ERR01002 OPS",
    ),
    "max of int64": (
        "torch.max(torch.randn(10, 20).to(torch.int64).npu())",
        r"RuntimeError: aten::max: dtype Long is not supported on Ascend910A.*ERR01007 OPS",
    ),
    "bce of int64": (
        "F.binary_cross_entropy_with_logits(torch.randn(4).npu(), torch.tensor([0, 1, 1, 0]).npu())",
        r"RuntimeError: .*Op type SigmoidCrossEntropyWithLogitsV2 of ops kernel AIcoreEngine is unsupported.*ERR01007 OPS",
    ),
    "out of memory": (
        "torch.empty(1 << 45, dtype=torch.uint8, device='npu')",
        r"OutOfMemoryError: NPU out of memory\.",
    ),
}
FIXED = {
    "set_device": "torch.npu.set_device('npu:1'); x = torch.ones(2).npu(); out = str((x + x.to('npu:1')).device)",
    "backward": "torch.npu.set_device('npu:1'); x = torch.randn(20, 10).requires_grad_(); torch.sum(x).backward(); y = x.npu(); "
    "torch.sum(y).backward(); out = str(y.device)",
    "trunc": "out = torch.trunc(torch.tensor([1.5]).npu().cpu()).npu().item()",
    "mixed stack": "out = str(torch.stack((torch.ones(2).npu(), torch.ones(2).npu().half().float()), -1).dtype)",
    "max": "out = torch.max(torch.tensor([1, 5, 2]).npu().int()).item()",
    "bce": "out = F.binary_cross_entropy_with_logits(torch.zeros(2).npu(), torch.tensor([0, 1]).npu().float()).item()",
    "stream": "s = torch.npu.current_stream(); s.synchronize(); out = s.query()",
}


def test_faq_what_fails_on_the_guide_s_chip() -> None:
    found, _ = outcomes({name: code for name, (code, _) in FAILING.items()}, **CHIP)
    for name, (_, expected) in FAILING.items():
        assert re.match(f"(?s){expected}", found[name]), f"{name}: {found[name]}"


def test_faq_what_fails_there_works_without_the_limits() -> None:
    """Memory stays a limit, and torch itself wants float targets."""
    found, _ = outcomes({name: code for name, (code, _) in FAILING.items()}, SOFTNPU_SOC="Ascend910A")
    assert {name for name, text in found.items() if text != "None"} == {"out of memory", "bce of int64"}
    assert "can't be cast to the desired output type Long" in found["bce of int64"]


def test_faq_the_fixed_versions_work_on_the_guide_s_chip() -> None:
    found, errors = outcomes(FIXED, **CHIP)
    assert found == {
        "set_device": "'npu:1'",
        "backward": "'npu:1'",
        "trunc": "1.0",
        "mixed stack": "'torch.float32'",
        "max": "5",
        "bce": "0.6931471824645996",
        "stream": "True",
    }
    assert "atexit" not in errors


@pytest.mark.parametrize(("start", "complains"), [("", True), ("torch.npu.set_device(1); ", False)])
def test_faq_error_at_exit(start: str, complains: bool) -> None:
    """A device other than the first, used without set_device, made the shutdown fail."""
    done = python(f"import torch; import torch_npu; {start}print(torch.ones(2, device='npu:1').device)", **CHIP)
    assert done.returncode == 0 and done.stdout == "npu:1\n", done.stderr
    assert ("Error in atexit._run_exitfuncs:\nRuntimeError: npuSynchronizeDevice" in done.stderr) == complains
