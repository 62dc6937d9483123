"""Storage formats: codes, sizes with padding, conversions and where they are seen."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_npu import _C, formats
from torch_npu.formats import Format

from softnpu.observe.timeline import Recorder

ND, NCHW, NHWC, C5HD, FZ, NZ = Format.ND, Format.NCHW, Format.NHWC, Format.NC1HWC0, Format.FRACTAL_Z, Format.FRACTAL_NZ


@pytest.fixture
def padded() -> Iterator[None]:
    """Padded formats are allowed, conversions counted from zero."""
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    formats.reset_conversions()
    yield
    torch.npu.config.allow_internal_format = before


def cast(tensor: torch.Tensor, code: int) -> torch.Tensor:
    return torch_npu.npu_format_cast(tensor, code)


def code(tensor: torch.Tensor) -> Format:
    return torch_npu.get_npu_format(tensor)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((), ND), ((3,), ND), ((2, 3), ND), ((1, 2, 3), ND), ((1, 2, 3, 4), NCHW), ((1,) * 5, 30), ((1,) * 6, ND)],
)
def test_a_new_tensor_has_the_format_of_its_rank(shape: tuple[int, ...], wanted: int) -> None:
    tensor = torch.ones(shape).npu()
    assert code(tensor) == wanted
    assert torch_npu.get_storage_size(tensor) == math.prod(shape)


def test_names_and_integers() -> None:
    assert str(Format.FRACTAL_NZ) == "FRACTAL_NZ" and torch_npu.Format(29) is Format.FRACTAL_NZ and Format.ND == 2
    assert isinstance(code(torch.ones(2).npu()), Format)


SIZES = [
    ((), torch.float32, C5HD, (1, 1, 1, 1, 16)),
    ((20,), torch.float32, C5HD, (1, 2, 1, 1, 16)),
    ((20, 3), torch.float32, C5HD, (1, 2, 3, 1, 16)),
    ((20, 3, 5), torch.float32, C5HD, (1, 2, 3, 5, 16)),
    ((2, 17, 3, 5), torch.float16, C5HD, (2, 2, 3, 5, 16)),
    ((33, 17, 3, 5), torch.float32, FZ, (2 * 3 * 5, 3, 16, 16)),
    ((3, 17), torch.float32, NZ, (2, 1, 16, 16)),
    ((3, 33), torch.int8, NZ, (2, 1, 16, 32)),
    ((7, 17, 40), torch.float16, NZ, (7, 3, 2, 16, 16)),
    ((2, 3, 4, 5), torch.float32, NZ, (2, 3, 1, 1, 16, 16)),
    ((2, 17, 3, 4, 5), torch.float32, 32, (2, 3, 2, 4, 5, 16)),
    ((17, 18, 3, 4, 5), torch.float32, 33, (3 * 2 * 4 * 5, 2, 16, 16)),
    ((2, 17, 3, 4, 5), torch.float32, 27, (2, 3, 4, 5, 17)),
    ((3, 33), torch.float32, 53, (9, 1, 16, 4)),
    ((4, 3), torch.float32, NCHW, (1, 4, 3, 1)),
    ((4, 3), torch.float32, NHWC, (4, 3)),
]


@pytest.mark.parametrize(("shape", "dtype", "wanted", "stored"), SIZES)
def test_sizes_with_padding(
    padded: None, shape: tuple[int, ...], dtype: torch.dtype, wanted: int, stored: tuple[int, ...]
) -> None:
    plain = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    tensor = cast(plain.npu(), wanted)
    assert code(tensor) == wanted
    assert formats.describe(tensor).storage_sizes == stored
    assert torch_npu.get_storage_size(tensor) == math.prod(stored)
    assert tensor.untyped_storage().nbytes() == math.prod(stored) * plain.itemsize
    assert tensor.shape == plain.shape and tensor.stride() == plain.stride()
    assert torch.equal(tensor.cpu(), plain)
    back = cast(tensor, ND)
    assert code(back) == (NCHW if len(shape) == 4 else ND) and torch.equal(back.cpu(), plain)
    assert back.untyped_storage().nbytes() == plain.numel() * plain.itemsize


def test_nd_of_four_dimensions_is_nchw(padded: None) -> None:
    tensor = torch.ones(1, 2, 3, 4).npu()
    assert cast(tensor, ND) is tensor and cast(tensor, NCHW) is tensor
    assert code(cast(cast(tensor, C5HD), ND)) == NCHW


def test_nz_needs_two_dimensions(padded: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert code(cast(torch.ones(5).npu(), NZ)) == ND
    assert capfd.readouterr().err.count("should be at least 2, but got 1") == 1


@pytest.mark.parametrize(
    ("shape", "wanted", "message"),
    [
        ((2, 3), 12, "storage format 12 is not supported"),
        ((2, 3), -1, "storage format -1 is not supported"),
        ((2, 3), 33, r"FRACTAL_Z_3D \(33\) needs a tensor of 5 dimensions, got \[2, 3\]"),
        ((1, 1, 1, 1, 1), 3, r"NC1HWC0 \(3\) needs a tensor of at most 4 dimensions"),
    ],
)
def test_formats_that_no_storage_can_have(padded: None, shape: tuple[int, ...], wanted: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        cast(torch.ones(shape).npu(), wanted)


def test_tensors_elsewhere_have_no_format() -> None:
    for call in (
        torch_npu.get_npu_format,
        torch_npu.get_storage_size,
        lambda tensor: cast(tensor, 2),
        formats.describe,
    ):
        with pytest.raises(RuntimeError, match=r"on cpu; move it with \.npu"):
            call(torch.ones(2))


def test_without_permission_the_base_format_comes(padded: None) -> None:
    torch.npu.config.allow_internal_format = False
    tensor = torch.ones(3, 5).npu()
    assert cast(tensor, NZ) is tensor
    assert code(cast(tensor, C5HD)) == NCHW and code(torch_npu.empty_with_format([3, 5], acl_format=29)) == ND
    kept = torch.ops.npu.unsafe_empty_with_format([3, 5], acl_format=29, keep_format=True)
    assert code(kept) == NZ and torch_npu.get_storage_size(kept) == 256


def test_an_older_chip_allows_padded_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend910A")
    program = "import torch, torch_npu; print(int(torch_npu.get_npu_format(torch_npu.npu_format_cast(torch.ones(3, 5).npu(), 29))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["29"], done.stderr


def test_empty_with_format(padded: None) -> None:
    tensor = torch_npu.empty_with_format([2, 3, 4, 5], dtype=torch.float16, acl_format=3)
    assert tensor.is_npu and tensor.shape == (2, 3, 4, 5) and tensor.is_contiguous() and not tensor._is_view()
    assert code(tensor) == C5HD and tensor.untyped_storage().nbytes() == 2 * 4 * 5 * 16 * 2
    assert torch.equal(tensor.fill_(2).cpu(), torch.full((2, 3, 4, 5), 2.0, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="device is cpu"):
        torch_npu.empty_with_format([2], device="cpu")
    with pytest.raises(RuntimeError, match=r"should be in \[0, 16\], got 17"):
        torch_npu.empty_with_format([2], base_addr_aligned_kb=17)


def test_cast_to_the_format_of_another_tensor_and_in_place(padded: None) -> None:
    model, tensor = cast(torch.ones(3, 5).npu(), NZ), torch.randn(4, 6).npu()
    plain = tensor.cpu()
    assert code(cast(tensor, model)) == NZ and code(tensor) == ND
    assert torch_npu.npu_format_cast_(tensor, model) is tensor
    assert code(tensor) == NZ and torch.equal(tensor.cpu(), plain)
    assert code(torch_npu.npu_format_cast_(tensor, 2)) == ND and tensor.untyped_storage().nbytes() == 96
    weight = torch.nn.Parameter(torch.ones(3, 5).npu())
    torch_npu.npu_format_cast_(weight, 29)
    (weight * 2).sum().backward()
    assert weight.is_leaf and code(weight) == NZ and torch.equal(weight.grad.cpu(), torch.full((3, 5), 2.0))


def test_the_older_spellings_work(padded: None) -> None:
    tensor = torch.ones(3, 5).npu()
    with pytest.warns(FutureWarning, match="Use torch_npu.npu_format_cast instead"):
        assert code(tensor.npu_format_cast(29)) == NZ
    with pytest.warns(FutureWarning, match="Use torch_npu.npu_format_cast instead"):
        assert code(torch.npu_format_cast(tensor, 29)) == NZ


def test_the_gradient_passes_unchanged(padded: None) -> None:
    tensor = torch.randn(3, 5).npu().requires_grad_()
    twin = tensor.detach().cpu().requires_grad_()
    cast(cast(tensor, NZ) ** 3, ND).sum().backward()
    (twin**3).sum().backward()
    torch.testing.assert_close(tensor.grad.cpu(), twin.grad)
    assert cast(tensor, ND) is tensor
    assert torch.autograd.gradcheck(
        lambda x: cast(x, NZ).sin(), torch.randn(3, 5, dtype=torch.float64).npu().requires_grad_()
    )


def test_traced_tensors(padded: None) -> None:
    with FakeTensorMode():
        fake = torch.empty(3, 5, device="npu").t()
        made = torch.ops.npu.npu_format_cast(fake, 29)
        assert made.shape == (5, 3) and made.stride() == fake.stride() and made.device.type == "npu"
    compiled = torch.compile(
        lambda x: torch.ops.npu.npu_format_cast(x * 2, 29) + 1, backend="aot_eager", fullgraph=True
    )
    assert torch.equal(compiled(torch.ones(3, 5).npu()).cpu(), torch.full((3, 5), 3.0))


def test_views_share_the_description(padded: None) -> None:
    tensor = cast(torch.arange(15.0).reshape(3, 5).npu(), NZ)
    for view in (tensor.t(), tensor[1:], tensor.view(15), tensor.unsqueeze(0)):
        assert code(view) == NZ and view.data_ptr() >= tensor.data_ptr()
    tensor[1:].zero_()
    assert tensor.cpu().sum() == 0 + 1 + 2 + 3 + 4
    image = torch.ones(2, 3, 4, 5).npu()
    assert code(image.view(6, 20)) == NCHW
    assert code(image.view(6, 20).clone()) == ND
    assert code(tensor.view(15) + 1) == ND and code(tensor.t() + 1) == ND
    assert "device='npu:0'" in repr(tensor)


def test_casting_a_view_keeps_its_place(padded: None) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    view = cast(whole.npu()[1:, ::2], NZ)
    assert torch.equal(view.cpu(), whole[1:, ::2])
    assert (view.storage_offset(), view.stride()) == (6, (6, 2)) and formats.describe(view).base_sizes == (4, 6)
    loose = cast(whole.npu().detach()[1:].detach(), NZ)
    assert torch.equal(loose.cpu(), whole[1:]) and code(loose) == NZ
    last = cast(torch.ones(2, 3, 4, 5).npu().to(memory_format=torch.channels_last), C5HD)
    assert last.is_contiguous(memory_format=torch.channels_last) and last.cpu().sum() == 120


def test_a_view_whose_rank_does_not_fit_is_a_copy(padded: None) -> None:
    tensor = cast(torch.ones(2, 3, 4, 5).npu(), C5HD)
    with pytest.warns(UserWarning, match="view with 5 dimensions .* NC1HWC0 is a copy in format NCHW"):
        view = tensor.unsqueeze(0)
    assert code(view) == NCHW and view.shape == (1, 2, 3, 4, 5)
    view.zero_()
    assert tensor.cpu().sum() == 120


def test_results_take_the_format_of_the_first_input(padded: None) -> None:
    tensor, plain = cast(torch.randn(16, 20).npu(), NZ), torch.randn(16, 20).npu()
    assert code(tensor + plain) == NZ and code(tensor.relu()) == NZ and code(tensor.mm(plain.t())) == NZ
    assert torch_npu.get_storage_size(tensor + plain) == 2 * 16 * 16
    assert code(plain + tensor) == ND
    assert code(tensor.sum()) == ND and code(tensor.argmax(1)) == ND and code(tensor > 0) == ND
    image = cast(torch.randn(1, 3, 8, 8).npu(), C5HD)
    assert code(torch.nn.functional.conv2d(image, torch.randn(4, 3, 3, 3).npu())) == C5HD
    torch.npu.config.allow_internal_format = False
    assert code(tensor + plain) == ND


def test_what_the_program_made_keeps_its_format(padded: None) -> None:
    tensor, plain = cast(torch.randn(3, 5).npu(), NZ), torch.randn(3, 5).npu()
    assert code(tensor.add_(plain)) == NZ and code(plain.add_(tensor)) == ND
    torch.add(tensor, 1, out=plain)
    assert code(plain) == ND and torch.equal(plain.cpu(), tensor.cpu() + 1)


def test_resize_and_set_update_the_description(padded: None) -> None:
    tensor = cast(torch.ones(3, 5).npu(), NZ)
    tensor.resize_(17, 5)
    assert code(tensor) == NZ and torch_npu.get_storage_size(tensor) == 2 * 256
    tensor.resize_(2, 2)
    assert code(tensor) == ND and torch_npu.get_storage_size(tensor) == 4
    other = torch.ones(2, 2).npu()
    other.set_(cast(torch.zeros(3, 5).npu(), NZ))
    assert code(other) == NZ


def test_conversions_are_counted_and_published(padded: None) -> None:
    with Recorder() as recorder:
        tensor = cast(torch.ones(2, 3, 4, 5).npu(), C5HD)
        tensor = cast(tensor, FZ)  # same group: directly
        tensor = cast(tensor, NZ)  # through NCHW
        cast(torch.ones(4, 3).npu(), NHWC)  # nothing moves
    wanted = [(NCHW, C5HD), (C5HD, FZ), (FZ, NCHW), (ND, NZ)]
    assert formats.conversions() == dict.fromkeys(wanted, 1)
    spans = [span for span in recorder.spans if span.name == "TransData"]
    assert [(span.detail["from"], span.detail["to"]) for span in spans] == [(str(a), str(b)) for a, b in wanted]
    assert all(span.start <= span.end and span.device == 0 for span in spans)
    assert spans[0].detail["sizes"] == (2, 3, 4, 5) and spans[2].end == spans[3].start
    formats.reset_conversions()
    assert formats.conversions() == {}


def test_an_operator_on_a_view_converts_first(padded: None) -> None:
    tensor = cast(torch.ones(16, 16).npu(), NZ)
    formats.reset_conversions()
    tensor + 1
    assert formats.conversions() == {}
    assert (tensor.t() + 1).cpu().sum() == 512
    assert formats.conversions() == {(NZ, ND): 1}


def test_records_die_with_their_storages(padded: None) -> None:
    gc.collect()
    before, allocated = _C._formats_records(), torch.npu.memory_allocated()
    kept = [cast(torch.ones(3, 5).npu(), NZ) for _ in range(300)]
    assert _C._formats_records() == before + 300
    del kept
    assert torch.npu.memory_allocated() == allocated
    assert _C._formats_records() == before


def test_cast_weight(padded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.npu, "get_mm_bmm_format_nd", lambda: False)
    monkeypatch.setattr(torch.npu, "is_jit_compile_false", lambda: False)
    layers = [
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.Conv2d(4, 4, 3, groups=2),
        torch.nn.BatchNorm2d(4),
        torch.nn.Conv3d(3, 4, 3),
    ]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(5, 6), torch.nn.MultiheadAttention(8, 2))
    twin, weight = [tensor.detach().clone() for tensor in model.parameters()], model[0].weight
    model.npu()
    assert model[0].weight is weight and code(weight) == FZ and code(model[1].weight) == NCHW
    assert code(model[2].weight) == code(model[2].running_var) == C5HD and code(model[3].weight) == 33
    assert code(model[4].weight) == NZ and code(model[5].in_proj_weight) == code(model[5].out_proj.weight) == NZ
    for tensor, plain in zip(model.parameters(), twin, strict=True):
        assert torch.equal(tensor.cpu(), plain)
    assert code(torch.nn.Linear(5, 6).to("npu:0").weight) == NZ
    assert not torch.nn.Linear(5, 6).to(torch.float64).weight.is_npu


def test_cast_weight_leaves_weights_alone_by_default(padded: None) -> None:
    assert code(torch.nn.Linear(5, 6).npu().weight) == ND
    torch.npu.config.allow_internal_format = False
    model = torch.nn.Linear(5, 6)
    model.cast_weight("npu")
    assert not model.weight.is_npu
