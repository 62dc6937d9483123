"""Legacy tensor types: constructors, isinstance, conversion, default type; generator methods."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch

DTYPES = {
    "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Double": torch.float64, "Float": torch.float32,
    "Half": torch.float16, "Int": torch.int32, "Long": torch.int64, "Short": torch.int16, "BFloat16": torch.bfloat16,
}  # fmt: skip


@pytest.mark.parametrize("word", DTYPES)
def test_each_type_makes_recognises_and_converts(word: str) -> None:
    kind, host, dtype = getattr(torch.npu, f"{word}Tensor"), getattr(torch, f"{word}Tensor"), DTYPES[word]
    x = kind([[1, 0, 1]])
    assert (x.device.type, x.dtype, x.tolist()) == ("npu", dtype, host([[1, 0, 1]]).tolist())
    assert isinstance(x, kind) and not isinstance(x.cpu(), kind) and not isinstance(x, host)
    assert not any(isinstance(x, getattr(torch.npu, f"{other}Tensor")) for other in DTYPES if other != word)
    assert x.type() == f"torch.npu.{word}Tensor"
    source = torch.tensor([0.0, 1.0, 3.0])
    for name in (kind, f"torch.npu.{word}Tensor"):
        moved = source.type(name)
        assert moved.type() == f"torch.npu.{word}Tensor"
        assert torch.equal(moved.cpu(), source.to(dtype))


def test_constructors_take_what_the_old_ones_took() -> None:
    kind = torch.npu.FloatTensor
    assert kind().shape == (0,)
    assert kind(2, 3).shape == (2, 3)
    assert kind(torch.Size([4])).shape == (4,)
    assert kind(numpy.array([1.5, 2.5])).tolist() == [1.5, 2.5]
    assert kind(2, device="npu:1").device == torch.device("npu:1")
    x = torch.ones(3).npu()
    assert kind(x).data_ptr() == x.data_ptr()
    assert kind(x.untyped_storage()).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="npu"):
        kind(torch.ones(3))
    with pytest.raises(RuntimeError, match="expects device type: npu but device type: cpu"):
        kind(3, device="cpu")


def test_constructor_uses_the_current_device() -> None:
    torch.npu.set_device(1)
    try:
        assert torch.npu.LongTensor(2).device.index == 1
    finally:
        torch.npu.set_device(0)


def test_a_type_is_described_as_a_class_of_torch_npu() -> None:
    kind = torch.npu.HalfTensor
    assert (kind.__name__, kind.__module__, repr(kind)) == ("HalfTensor", "torch.npu", "<class 'torch.npu.HalfTensor'>")
    assert (kind.dtype, kind.layout, kind.is_cuda, kind.is_sparse) == (torch.float16, torch.strided, False, False)
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert kind in torch._tensor_classes
    assert isinstance(torch.nn.Parameter(torch.ones(1).npu().half()), kind)


def test_module_type() -> None:
    assert {p.type() for p in torch.nn.Linear(2, 2).type(torch.npu.HalfTensor).parameters()} == {"torch.npu.HalfTensor"}


@pytest.fixture
def defaults() -> Iterator[None]:
    yield
    torch.set_default_tensor_type("torch.FloatTensor")


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize("kind", ["torch.npu.HalfTensor", torch.npu.HalfTensor])
def test_default_tensor_type(kind: str | type) -> None:
    torch.set_default_tensor_type(kind)
    assert torch.ones(2).type() == "torch.npu.HalfTensor"
    torch.set_default_tensor_type(torch.DoubleTensor)
    assert torch.ones(2).type() == "torch.DoubleTensor"
    with pytest.raises(TypeError, match="floating-point"):
        torch.set_default_tensor_type(torch.npu.IntTensor)
    assert torch.ones(2).type() == "torch.DoubleTensor"


def test_default_device() -> None:
    torch.set_default_device("npu:1")
    try:
        assert torch.ones(2).device == torch.device("npu:1") and torch.nn.Linear(1, 1).weight.device.index == 1
        assert torch.tensor([1.0]).device.type == "npu" and torch.ones(1, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(2).device.type == "cpu"


@pytest.mark.parametrize("way", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy])
def test_generators_and_devices_are_copied_streams_and_events_are_not(way: Callable[[Any], Any]) -> None:
    generator = torch.Generator(device="npu:1").manual_seed(5)
    torch.rand(3, device="npu:1", generator=generator)
    twin = way(generator)
    assert twin.device == generator.device and twin.get_state().tolist() == generator.get_state().tolist()
    expected = torch.rand(3, device="npu:1", generator=generator)
    assert torch.equal(torch.rand(3, device="npu:1", generator=twin), expected)
    assert way(torch.device("npu", 1)) == torch.device("npu:1")
    for value in (torch.npu.Stream(), torch.npu.Event()):
        with pytest.raises(TypeError, match="cannot pickle"):
            way(value)


def test_dropout_with_byte_mask_is_dropout_with_a_warning() -> None:
    x = torch.ones(64, device="npu")
    torch.manual_seed(3)
    expected = torch.nn.functional.dropout(x, 0.25)
    torch.manual_seed(3)
    with pytest.warns(FutureWarning, match="dropout_with_byte_mask is deprecated"):
        assert torch.equal(torch.nn.functional.dropout_with_byte_mask(x, 0.25), expected)
    with pytest.warns(FutureWarning, match="DropoutWithByteMask is deprecated"):
        module = torch.nn.DropoutWithByteMask(0.25)
    torch.manual_seed(3)
    assert torch.equal(module(x), expected) and torch.equal(module.eval()(x), x)
    assert repr(copy.deepcopy(module)) == "DropoutWithByteMask(p=0.25, inplace=False)"


def test_generator_methods() -> None:
    generator = torch.Generator(device="npu")
    assert generator.device == torch.device("npu:0")
    assert generator.manual_seed(7) is generator and generator.initial_seed() == 7
    state = generator.get_state()
    assert (state.device.type, state.dtype, state.numel()) == ("cpu", torch.uint8, 16)
    assert state.view(torch.int64).tolist() == [7, 0]
    first = torch.rand(5, device="npu", generator=generator)
    assert generator.get_offset() > 0 and generator.get_offset() % 4 == 0
    clone = generator.clone_state()
    second = torch.rand(5, device="npu", generator=generator)
    assert not torch.equal(first, second)
    assert torch.equal(torch.rand(5, device="npu", generator=clone), second)
    generator.set_state(state)
    assert torch.equal(torch.rand(5, device="npu", generator=generator), first)
    generator.set_offset(0)
    assert torch.equal(torch.rand(5, device="npu", generator=generator), first)
    assert generator.seed() == generator.initial_seed()


def test_generator_refuses_wrong_states_and_devices() -> None:
    generator = torch.Generator(device="npu:1").manual_seed(3)
    before = generator.get_state()
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)
    with pytest.raises(RuntimeError, match="wrong size"):
        generator.set_state(torch.zeros(15, dtype=torch.uint8))
    with pytest.raises(TypeError, match="ByteTensor"):
        generator.set_state(torch.zeros(16))
    assert torch.equal(generator.get_state(), before)
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.rand(2, device="npu", generator=torch.Generator())


def test_generator_of_the_device_is_refused_by_cpu_tensors() -> None:
    for x in (torch.zeros(2), torch.zeros(())):
        with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'npu'"):
            x.normal_(generator=torch.Generator(device="npu"))
        assert not x.any()


def test_manual_seed_seeds_every_device() -> None:
    def draw() -> list[list[float]]:
        torch.manual_seed(11)
        return [torch.rand(4, device=f"npu:{i}").tolist() for i in range(torch.npu.device_count())]

    assert draw() == draw()


def test_graphsafe_state_goes_on_together() -> None:
    generator = torch.Generator(device="npu").manual_seed(5)
    twin = generator.graphsafe_get_state()
    torch.rand(3, device="npu", generator=generator)
    assert twin.get_state().tolist() == generator.get_state().tolist() and twin.get_offset() > 0
    other = torch.Generator(device="npu").manual_seed(9)
    other.graphsafe_set_state(twin)
    other.manual_seed(1)
    assert generator.initial_seed() == 1
    with pytest.raises(RuntimeError, match="'npu' generator but found 'cpu'"):
        other.graphsafe_set_state(torch.Generator())


def test_refused_state_changes_nothing() -> None:
    generator = torch.Generator(device="npu").manual_seed(5)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_state(torch.tensor([8, 3]).view(torch.uint8))
    assert (generator.initial_seed(), generator.get_offset()) == (5, 0)
