"""torch.npu: generators and their states."""

from __future__ import annotations

import pytest
import torch

npu = torch.npu


@pytest.fixture(autouse=True)
def _states():
    before = npu.get_rng_state_all()
    yield
    npu.set_rng_state_all(before)


def draw(device: int = 0) -> list[float]:
    return torch.rand(4, device=f"npu:{device}").tolist()


def test_manual_seed_is_for_the_current_device():
    npu.manual_seed_all(1)
    first = draw(0), draw(1)
    npu.manual_seed(1)
    assert draw(0) == first[0]
    assert draw(1) != first[1]
    assert npu.initial_seed() == 1


def test_torch_manual_seed_reaches_all_devices():
    torch.manual_seed(5)
    first = draw(0), draw(1)
    torch.manual_seed(5)
    assert (draw(0), draw(1)) == first
    assert [one.initial_seed() for one in npu.default_generators] == [5, 5]


def test_cpu_numbers_are_not_used_up():
    torch.manual_seed(5)
    alone = torch.rand(3)
    torch.manual_seed(5)
    draw()
    assert torch.equal(torch.rand(3), alone)


@pytest.mark.parametrize("device", ["npu", "npu:1", 1, torch.device("npu:1")])
def test_state_comes_back(device):
    index = 0 if device == "npu" else 1
    state = npu.get_rng_state(device)
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    first = draw(index)
    assert draw(index) != first
    npu.set_rng_state(state, device)
    assert draw(index) == first


def test_state_is_seed_and_offset():
    npu.manual_seed(11)
    draw()
    seed, offset = npu.get_rng_state().view(torch.int64).tolist()
    assert seed == 11
    assert offset == npu._get_rng_state_offset() > 0
    assert offset % 4 == 0


def test_state_given_is_copied():
    state = npu.get_rng_state()
    npu.set_rng_state(state)
    state.zero_()
    assert not torch.equal(npu.get_rng_state(), state) or npu.initial_seed() == 0


def test_offsets():
    npu.manual_seed(3)
    first = draw()
    used = npu._get_rng_state_offset()
    second = draw()
    npu._set_rng_state_offset(used)
    assert draw() == second
    npu._set_rng_state_offset(0)
    assert draw() == first
    with pytest.raises(RuntimeError, match="multiple of 4"):
        npu._set_rng_state_offset(3)


def test_random_seeds():
    npu.seed_all()
    seeds = [one.initial_seed() for one in npu.default_generators]
    assert seeds[0] == seeds[1]
    npu.seed()
    assert npu.initial_seed() != seeds[0]


def test_wrong_states_and_devices():
    with pytest.raises(RuntimeError, match="wrong size"):
        npu.set_rng_state(torch.zeros(8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="npu device"):
        npu.get_rng_state("cpu")
    with pytest.raises(AssertionError, match="Invalid device id"):
        npu.get_rng_state(5)
    with pytest.raises(RuntimeError, match=r"[Dd]evice|generator"):
        torch.rand(2, device="npu", generator=torch.Generator())


def test_fork_rng_and_checkpoint_keep_numbers():
    npu.manual_seed(9)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        inside = draw()
    assert draw() == inside

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(64, device="npu", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(dropped, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
