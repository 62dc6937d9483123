"""Padded formats where tensors move: copies count conversions, and everything outside of the device sees logical values."""

from __future__ import annotations

import copy
import io
import math
import pickle
import warnings
import zipfile
from collections.abc import Iterator

import pytest
import torch
import torch_npu
from torch_npu import formats
from torch_npu.formats import Format

ND, NCHW, C5HD, NZ = Format.ND, Format.NCHW, Format.NC1HWC0, Format.FRACTAL_NZ
VALUES = torch.arange(15.0).reshape(3, 5)


@pytest.fixture(autouse=True)
def padded() -> Iterator[None]:
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    yield
    torch.npu.config.allow_internal_format = before


def made(code: int = NZ, values: torch.Tensor = VALUES) -> torch.Tensor:
    tensor = torch_npu.npu_format_cast(values.npu(), code)
    formats.reset_conversions()
    return tensor


def test_a_copy_between_equal_formats_converts_nothing() -> None:
    source, target = made(values=VALUES + 1), made()
    target.copy_(source)
    assert formats.conversions() == {}
    assert torch.equal(target.cpu(), VALUES + 1)


def test_copies_count_what_a_chip_converts() -> None:
    plain, target = VALUES.npu() + 1, made()
    target.copy_(plain)
    assert formats.conversions() == {(ND, NZ): 1}
    formats.reset_conversions()
    plain.copy_(target)
    assert formats.conversions() == {(NZ, ND): 1}
    image = made(C5HD, torch.ones(1, 1, 3, 5))
    target.copy_(image[0, 0])
    assert formats.conversions() == {(C5HD, NCHW): 1, (ND, NZ): 1}
    assert target.cpu().sum() == 15


def test_a_copy_into_a_part_keeps_the_rest() -> None:
    target = made()
    target[1].copy_(torch.full((5,), 7.0).npu())
    assert formats.conversions() == {(NZ, ND): 1, (ND, NZ): 1}
    wanted = VALUES.clone()
    wanted[1] = 7
    assert torch.equal(target.cpu(), wanted)


def test_copies_to_and_from_the_host_convert_once() -> None:
    tensor = made()
    assert torch.equal(tensor.cpu(), VALUES)
    assert formats.conversions() == {(NZ, ND): 1}
    formats.reset_conversions()
    tensor.copy_(VALUES + 2)
    assert formats.conversions() == {(ND, NZ): 1}
    formats.reset_conversions()
    VALUES.npu().cpu()
    assert formats.conversions() == {}, "plain tensors have nothing to convert"


def test_files_hold_logical_bytes() -> None:
    tensor = made()
    assert tensor.untyped_storage().nbytes() == 256 * 4
    file = io.BytesIO()
    torch.save(tensor, file)
    sizes = [one.file_size for one in zipfile.ZipFile(file).infolist() if "/data/" in one.filename]
    assert sizes == [15 * 4]
    for device, wanted in (("cpu", None), ("npu:0", ND)):
        file.seek(0)
        loaded = torch.load(file, map_location=device)
        assert torch.equal(loaded.cpu(), VALUES)
        assert wanted is None or torch_npu.get_npu_format(loaded) in (ND, NZ)
    assert torch.equal(pickle.loads(pickle.dumps(tensor)).cpu(), VALUES)
    file = io.BytesIO()
    torch.save({"weight": torch.nn.Parameter(made()), "row": made()[1]}, file)
    file.seek(0)
    both = torch.load(file)
    assert isinstance(both["weight"], torch.nn.Parameter) and both["weight"].requires_grad
    assert torch.equal(both["weight"].cpu(), VALUES)
    assert torch.equal(both["row"].cpu(), VALUES[1])


def test_deepcopy_print_and_numbers() -> None:
    tensor = made()
    twin = copy.deepcopy(tensor)
    assert torch.equal(twin.cpu(), VALUES)
    twin.zero_()
    assert torch.equal(tensor.cpu(), VALUES)
    assert repr(tensor) == repr(VALUES.npu())
    assert tensor.tolist() == VALUES.tolist()
    assert tensor[2, 4].item() == 14
    assert torch.equal(tensor.to("npu:1").cpu(), VALUES)
    assert (tensor.numel(), tensor.shape, tensor.stride(), tensor.storage_offset()) == (15, (3, 5), (5, 1), 0)
    parameter = torch.nn.Parameter(made())
    assert torch.equal(copy.deepcopy(parameter).cpu(), VALUES)


def test_storage_size_counts_padding() -> None:
    tensor = made()
    assert tensor.untyped_storage().size() == 1024
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once in a process that TypedStorage is deprecated
        assert tensor.storage().size() == 256
    assert torch_npu.get_storage_size(tensor) == 256
    assert tensor.untyped_storage().cpu().tolist()[:60] == VALUES.untyped_storage().tolist()


@pytest.mark.parametrize(("number", "c0"), [(50, 16), (51, 32), (52, 2), (53, 4), (54, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_numbered_nz_formats(number: int, c0: int, dtype: torch.dtype) -> None:
    tensor = made(number, torch.ones(2, 20, 40).to(dtype))
    stored = (2, math.ceil(40 / c0), 2, 16, c0)
    assert formats.describe(tensor).storage_sizes == stored
    assert torch_npu.get_storage_size(tensor) == math.prod(stored)
    assert torch_npu.get_npu_format(tensor) == number
    assert str(torch_npu.get_npu_format(tensor)) == f"FRACTAL_NZ_C0_{c0}"


def test_errors_end_with_their_line() -> None:
    for call in (
        lambda: torch_npu.npu_format_cast(torch.ones(2).npu(), 99),
        lambda: torch_npu.npu_format_cast(torch.ones(2, 2).npu(), 32),
        lambda: torch_npu.get_npu_format(torch.ones(2)),
        lambda: torch_npu.empty_with_format((2, 2), device="npu", acl_format=2, base_addr_aligned_kb=99),
    ):
        with pytest.raises(RuntimeError, match=r"\n\[ERROR\] .* ERR0000\d PTA invalid (parameter|value)"):
            call()
