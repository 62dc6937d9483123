"""How torch tensors become bytes of messages and come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

from softnpu.flow.errors import DfException
from softnpu.flow.message import CUSTOM, TORCH_TENSOR, Message, Payload
from softnpu.flow.values import torch_door


def test_tensors_leave_without_a_copy_and_come_back_equal() -> None:
    tensor = torch.arange(24.0).reshape(2, 3, 4).npu()
    meta, chunks = torch_door.to_chunks(tensor)
    assert chunks[0].ctypes.data == tensor.data_ptr() and chunks[0].nbytes == 96
    for device in ("cpu", "npu:1"):
        result = torch_door.from_chunks(meta, chunks, device)
        assert result.device == torch.device(device) and torch.equal(result.cpu(), tensor.cpu())
    other = torch_door.from_chunks(meta, [np.array(chunks[0])], "cpu", private=True)
    other += 1
    assert tensor[0, 0, 0] == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 5).t(),
        lambda: torch.randn(4, 5).npu().t(),
        lambda: torch.tensor(5).npu(),
        lambda: torch.zeros(0, 3),
        lambda: torch.randn(3, requires_grad=True),
        lambda: torch.randn(3).to(torch.bfloat16).npu(),
        lambda: torch.randn(8)[3:6],
    ],
)
def test_shapes_layouts_and_types_survive(make: Any) -> None:
    tensor = make()
    meta, chunks = torch_door.to_chunks(tensor)
    wanted = tensor.detach().cpu()
    for found in (
        torch_door.from_chunks(meta, [bytes(chunks[0])]),
        torch_door.deserialize(torch_door.serialize(wanted)),
    ):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape and torch.equal(found, wanted)
    assert len(torch_door.serialize(wanted)) == torch_door.size(wanted) == 1024 + wanted.numel() * wanted.element_size()


def test_what_cannot_travel_is_refused() -> None:
    with pytest.raises(TypeError, match="on npu:0"):
        torch_door.serialize(torch.ones(2).npu())
    with pytest.raises(DfException, match="complex64"):
        torch_door.to_chunks(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    "change", [(slice(0, 100), b""), (slice(-1, None), b""), (slice(16, 20), b"\x63\0\0\0"), (slice(24, 26), b"\xff\0")]
)
def test_damaged_bytes_are_refused(change: Any) -> None:
    place, content = change
    data = bytearray(torch_door.serialize(torch.ones(3)))
    data[place] = content
    with pytest.raises(DfException):
        torch_door.deserialize(bytes(data))


def test_private_formats_arrive_as_plain_ones() -> None:
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    try:
        plain = torch.randn(17, 33)
        packed = torch_npu.npu_format_cast(plain.npu(), 29)
        assert int(torch_npu.get_npu_format(packed)) == 29
        meta, chunks = torch_door.to_chunks(packed)
        assert torch.equal(torch_door.from_chunks(meta, chunks), plain)
    finally:
        torch.npu.config.allow_internal_format = before


def test_models_read_tensors_in_every_form_without_a_copy() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    meta, chunks = torch_door.to_chunks(tensor)
    for payload in (torch_door.local(tensor), Payload(CUSTOM, meta, chunks)):
        result = torch_door.as_array(Message(payload, TORCH_TENSOR))
        assert result.ctypes.data == tensor.data_ptr()
        np.testing.assert_array_equal(result, tensor.numpy())
    described = Message(Payload(CUSTOM, b"", [torch_door.serialize(tensor)]), TORCH_TENSOR)
    np.testing.assert_array_equal(torch_door.as_array(described), tensor.numpy())


def test_the_registered_function_offers_its_two_pieces() -> None:
    meta, chunks = torch_door.serialize.to_chunks(torch.ones(2))
    assert (meta, chunks[0].nbytes) == (b"float32 2", 8)
    with pytest.raises(TypeError, match="feed"):
        torch_door.serialize.to_chunks(torch.ones(2).npu())
    tensor = torch.ones(2).npu()
    assert torch_door.on_host(tensor).device.type == "cpu"
