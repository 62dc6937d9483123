"""Bad input: torch's usual errors, with the line of torch_npu where the error is raised on the device; never a crash."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.npu
from torch import nn

LINE = r"\n\[ERROR\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:\d+, Device:\d+, RankID:-?\d+\) ERR0[01]\d\d\d (PTA|OPS) "


def ones(*shape: int, device: str = "npu", **options: Any) -> torch.Tensor:
    return torch.ones(shape, device=device, **options)


def freed(*shape: int) -> torch.Tensor:
    """A tensor whose storage has given its memory back."""
    made = ones(*shape)
    made.untyped_storage().resize_(0)
    return made


def fails(call: Callable[[], object], text: str, line: bool = True, kind: type[Exception] = RuntimeError) -> None:
    with pytest.raises(kind, match=text) as caught:
        call()
    assert (re.search(LINE, str(caught.value)) is not None) == line, str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ones(2, device="npu:99"),
        lambda: torch.empty(2, device="npu:2"),
        lambda: torch.rand(2, device="npu:99"),
        lambda: torch.arange(3, device="npu:99"),
        lambda: torch.tensor([1.0], device="npu:99"),
        lambda: torch.ones(2).to("npu:99"),
        lambda: torch.ones(2).npu(99),
        lambda: ones(2).to("npu:99"),
        lambda: nn.Linear(2, 2).to("npu:99"),
        lambda: torch.empty_strided((2,), (1,), device="npu:99"),
        lambda: torch.Generator(device="npu:99"),
        lambda: torch.npu.set_device(99),
        lambda: torch.npu.set_device("npu:99"),
        lambda: torch.npu.device("npu:99").__enter__(),
        lambda: torch.accelerator.set_device_index(99),
        lambda: torch.Stream(device="npu:99"),
    ],
)
def test_a_device_that_is_not_there(call: Callable[[], object]) -> None:
    fails(call, "Invalid device id (99|2)")
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.npu.memory_allocated(99),
        lambda: torch.npu.memory_stats("npu:99"),
        lambda: torch.npu.synchronize(99),
        lambda: torch.npu.get_device_properties(99),
        lambda: torch.npu.get_device_name(-5),
        lambda: torch.npu.mem_get_info(99),
    ],
)
def test_questions_about_a_device_that_is_not_there(call: Callable[[], object]) -> None:
    fails(call, "Invalid device id", kind=AssertionError)


@pytest.mark.parametrize(
    "name", ["npu:-1", "npu:1.5", "npu:", "npu: 0", "npu:x", "npux", "npu:0:0", "npu:999999999999", ""]
)
def test_odd_names_of_devices(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)device|could not convert"):
        torch.ones(2, device=name)


@pytest.mark.parametrize("device", [1.5, True, [], object(), "cpu", torch.device("cpu")])
def test_set_device_takes_npu_devices(device: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)Expected .* but got.*ERR0000[23] PTA"):
        torch.npu.set_device(device)
    assert torch.npu.current_device() == 0


OTHERS = [pytest.param("cpu", id="cpu"), pytest.param("npu:1", id="npu1")]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a.add_(b),
        lambda a, b: b.add_(a),
        lambda a, b: a @ b,
        lambda a, b: torch.mm(b, a),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.stack([b, a]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.add(a, a, out=b),
        lambda a, b: torch.mm(a, a, out=b),
        lambda a, b: torch.addmm(a, a, b),
        lambda a, b: a.gather(0, b.long() * 0),
        lambda a, b: a.index_select(0, b[0].long()),
        lambda a, b: torch.lerp(a, b, 0.5),
        lambda a, b: torch._foreach_add([a], [b]),
        lambda a, b: nn.functional.linear(a, b),
        lambda a, b: nn.functional.embedding(b.long(), a),
        lambda a, b: nn.functional.layer_norm(a, (2,), b[0]),
        lambda a, b: nn.functional.conv2d(a.view(1, 1, 2, 2), b.view(1, 1, 2, 2)),
        lambda a, b: nn.functional.conv2d(b.view(1, 1, 2, 2), a.view(1, 1, 2, 2)),
        lambda a, b: nn.functional.conv2d(a.view(1, 1, 2, 2), a.view(1, 1, 2, 2), b[0, :1]),
        lambda a, b: nn.functional.batch_norm(a, b[0], b[1], training=True),
        lambda a, b: nn.functional.mse_loss(a, b),
    ],
)
def test_tensors_of_two_devices(call: Callable[[torch.Tensor, torch.Tensor], object], other: str) -> None:
    fails(
        lambda: call(ones(2, 2), ones(2, 2, device=other)),
        "[Ee]xpected all tensors to be on the same device|same device",
    )


def test_numbers_of_the_host_and_indices_of_the_host_are_taken() -> None:
    x = ones(3)
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert x[torch.tensor([0, 2])].tolist() == [1, 1]
    x[torch.tensor([0])] = torch.tensor(5.0)
    assert x.tolist() == [5, 1, 1]
    fails(lambda: torch.ones(3)[torch.tensor([0], device="npu")], "indices should be either on")
    fails(lambda: x.__setitem__(torch.tensor([0, 1]), torch.ones(2)), "same device")
    fails(lambda: x.index_put_((torch.tensor([0, 1], device="npu"),), torch.ones(2)), "same device")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: x.add_(1),
        lambda x: x.sum(),
        lambda x: x @ x,
        lambda x: torch.cat([x, ones(2, 2)]),
        lambda x: x.cpu(),
        lambda x: x.clone(),
        lambda x: x.fill_(2),
        lambda x: x.copy_(torch.ones(2, 2)),
        lambda x: ones(2, 2).copy_(x),
        lambda x: x[0, 0].item(),
        lambda x: x.t().contiguous(),
        lambda x: torch.add(ones(2, 2), 1, out=x),
        lambda x: nn.functional.conv2d(x[None, None], ones(1, 1, 2, 2)),
        lambda x: repr(x),
        lambda x: x.half(),
        lambda x: torch.save(x, io.BytesIO()) or x.tolist(),
    ],
)
def test_a_tensor_without_memory(call: Callable[[torch.Tensor], object]) -> None:
    fails(lambda: call(freed(2, 2)), "data is not allocated yet|out of bounds for storage of size 0")


def test_a_tensor_without_memory_has_no_address_and_can_get_memory_again() -> None:
    x = freed(4)
    assert x.data_ptr() == 0 and x.shape == (4,) and x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    assert x.fill_(3).tolist() == [3.0] * 4
    empty = ones(0)
    empty.untyped_storage().resize_(0)
    assert (empty + 1).shape == (0,)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: torch.add(ones(2), 1.5, out=ones(2, dtype=torch.int64)), "can't be cast to the desired output type"),
        (lambda: torch.mm(ones(2, 3), ones(2, 3)), "mat1 and mat2 shapes cannot be multiplied"),
        (lambda: torch.mm(ones(2, 2), ones(2, 2).double()), "expected .* to have the same dtype|same dtype"),
        (lambda: torch.mm(ones(2, 2), ones(2, 2), out=ones(2, 2).long()), "dtype|scalar type"),
        (lambda: ones(2).view(3), "invalid for input of size 2"),
        (lambda: ones(2).as_strided((4,), (1,)), "out of bounds for storage"),
        (lambda: ones(2).as_strided((2,), (-1,)), "[Nn]egative strides"),
        (lambda: ones(2).as_strided((2,), (1,), -1), "storage_offset|storage offset"),
        (lambda: ones(2).as_strided((2**40, 2**40), (2**40, 1)), "out of bounds|overflow"),
        (lambda: ones(2).expand(3), "must match the existing size"),
        (lambda: ones(2).unfold(0, 5, 1), "maximum size for tensor"),
        (lambda: torch.empty(-1, device="npu"), "negative dimension"),
        (lambda: torch.empty(2**62, 2**62, device="npu"), "overflow|too large|invalid|out of memory"),
        (lambda: torch.empty_strided((2, 2), (2**62, 2**62), device="npu"), "overflow|out of memory|invalid"),
        (lambda: ones(2, 3).index_select(0, torch.tensor([7], device="npu")), "out of range"),
        (lambda: ones(2, 3).gather(0, torch.tensor([[9]], device="npu")), "out of bounds"),
        (lambda: ones(2, 3).scatter_(0, torch.tensor([[-9]], device="npu"), 1.0), "out of bounds"),
        (lambda: nn.functional.embedding(torch.tensor([9], device="npu"), ones(2, 3)), "out of range"),
        (lambda: nn.functional.conv2d(ones(1, 2, 2, 2), ones(1, 1, 1, 1)), "expected input"),
        (lambda: torch.linalg.inv(torch.zeros(2, 2, device="npu")), "singular"),
        (lambda: torch.bernoulli(ones(2) * 7), "p >= 0|p_in|Expected p"),
        (lambda: torch.multinomial(ones(2), 5), "cannot sample"),
        (lambda: ones(2).to_sparse(), "sparse"),
        (lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), device="npu"), "[Ss]parse"),
        (lambda: ones(2).pin_memory(), "pinned|pin"),
        (lambda: torch.empty(2, device="npu", pin_memory=True), "pinned"),
    ],
)
def test_errors_of_operators(call: Callable[[], object], text: str) -> None:
    with pytest.raises((RuntimeError, IndexError), match=text):
        call()
    assert ones(2).sum().item() == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.add(ones(2), 1.5, out=ones(2, dtype=torch.int64)),
        lambda: torch.mm(ones(2, 3), ones(2, 3)),
        lambda: ones(2).view(3),
        lambda: ones(2).as_strided((4,), (1,)),
        lambda: ones(2, 3).gather(0, torch.tensor([[9]], device="npu")),
        lambda: ones(2, 3).index_select(0, torch.tensor([7], device="npu")),
        lambda: ones(2).to_sparse(),
        lambda: ones(2).set_(ones(2).untyped_storage(), 0, (5,), (-1,)),
    ],
)
def test_errors_inside_kernels_end_with_the_line(call: Callable[[], object]) -> None:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        call()
    assert re.search(LINE, str(caught.value)), str(caught.value)


def test_the_type_of_an_error_stays() -> None:
    with pytest.raises(IndexError):
        ones(2, 3).index_select(0, torch.tensor([7], device="npu"))
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(-torch.eye(2, device="npu"))
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**45, device="npu")


def test_storages_that_are_too_small() -> None:
    small = ones(1).untyped_storage()
    x = torch.empty(0, device="npu").set_(small, 0, (3,), (1,))  # torch makes the storage grow
    assert x.fill_(2).tolist() == [2.0] * 3 and small.nbytes() == 12
    fails(lambda: ones(2).set_(torch.ones(2).untyped_storage()), "storage on different device")
    base = ones(4)
    view = base[1:3]
    view.resize_(2)
    base.resize_(100)
    assert view.tolist() == [1.0, 1.0] and base[:4].tolist() == [1.0] * 4


def test_memory_that_grows_is_memory_of_its_own_device() -> None:
    before = torch.npu.memory_allocated(0), torch.npu.memory_allocated(1)
    x = torch.empty(0, device="npu:1").resize_(4096)
    y = torch.empty(0, device="npu:1").set_(ones(1, device="npu:1").untyped_storage(), 0, (4096,), (1,))
    assert torch.npu.memory_allocated(0) == before[0] and torch.npu.memory_allocated(1) >= before[1] + 2 * 16384
    assert x.device == y.device == torch.device("npu:1") and torch.npu.current_device() == 0


def test_attention_checks_its_devices_itself() -> None:
    q = ones(1, 1, 2, 2)
    for other in (q.cpu(), q.to("npu:1")):
        fails(
            lambda other=other: nn.functional.scaled_dot_product_attention(q, other, q),
            "to have the same device type",
            line=False,
        )


def test_conversions_that_the_device_cannot_make() -> None:
    x = ones(2)
    fails(x.numpy, "can't convert npu:0 device type tensor to numpy", line=False, kind=TypeError)
    fails(lambda: np.asarray(x), "can't convert npu:0 device type tensor to numpy", line=False, kind=TypeError)
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        torch.from_numpy(x)
    with pytest.raises(TypeError):
        torch.add(x, None)
    with pytest.raises(TypeError):
        x @ "npu"  # type: ignore[operator]
    assert ones().item() == 1 and (ones() + ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to Scalar"):
        x.item()


def test_generators_of_another_device() -> None:
    host, device = torch.Generator(), torch.Generator(device="npu")
    fails(
        lambda: torch.rand(2, device="npu", generator=host),
        "Expected a 'npu' device type for generator but found 'cpu'",
    )
    fails(lambda: ones(2).normal_(generator=host), "Expected a 'npu' device type for generator but found 'cpu'")
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'npu'"):
        torch.rand(2, generator=device)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'npu'"):
        torch.ones(2).bernoulli_(0.5, generator=device)
    fails(lambda: device.set_state(torch.zeros(5, dtype=torch.uint8)), "RNG state is wrong size")
    with pytest.raises((RuntimeError, TypeError), match=r"(?i)bytetensor|rng"):
        device.set_state(torch.zeros(16))


def test_a_checkpoint_for_a_device_that_is_not_there_is_refused() -> None:
    file = io.BytesIO()
    torch.save(ones(3), file)
    for wrong in (RuntimeError, "npu:99"), (RuntimeError, "nowhere:0"):
        file.seek(0)
        with pytest.raises(wrong[0]):
            torch.load(file, map_location=wrong[1])
    broken = io.BytesIO(file.getvalue()[:100])
    with pytest.raises(Exception, match=r"(?i)archive|central directory|magic|corrupt|pickle"):
        torch.load(broken)


@pytest.mark.parametrize("index", [99, 127, 128, 200])
def test_numbers_that_do_not_fit_a_byte_with_a_sign(index):
    for make in (
        lambda: torch.empty(2, device=f"npu:{index}"),
        lambda: torch.arange(2, device=torch.device("npu", index)),
        lambda: torch.ones(2).to(f"npu:{index}"),
    ):
        with pytest.raises(RuntimeError, match=f"Invalid device id {index}"):
            make()


def test_cells_of_a_wrong_shape():
    a = torch.ones(2, 2, device="npu")
    for _ in range(50):
        with pytest.raises(RuntimeError, match=r"\[batch, 3 \* hidden\]"):
            torch.ops.aten._thnn_fused_gru_cell(a, a, a)
        with pytest.raises(RuntimeError, match=r"\[batch, 4 \* hidden\]"):
            torch.ops.aten._thnn_fused_lstm_cell(a, a, a)
