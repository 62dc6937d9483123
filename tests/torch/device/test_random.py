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


def test_an_offset_repeats_the_numbers_behind_it():
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


DROPPING = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "lstm": lambda x: _lstm()(x.view(5, 2, 2))[0],
    "encoder": lambda x: _encoder()(x.view(1, 5, 4)),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 1, 5, 4)] * 3, dropout_p=0.5),
}


def _lstm() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.LSTM(2, 3, 2, dropout=0.5).npu()


def _encoder() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True).npu()


@pytest.mark.parametrize("name", ["dropout", "native_dropout", "attention"])
def test_dropout_takes_the_numbers_of_the_device(name):
    x = torch.rand(20, device="npu") + 1
    host = torch.get_rng_state()
    npu.manual_seed(1)
    first, state = DROPPING[name](x), npu.get_rng_state()
    second = DROPPING[name](x)
    assert not torch.equal(first, second)
    npu.set_rng_state(state)
    assert torch.equal(DROPPING[name](x), second)
    npu.manual_seed(1)
    assert torch.equal(DROPPING[name](x), first)
    assert torch.equal(torch.get_rng_state(), host), "the host's generator has not moved"


@pytest.mark.parametrize("name", ["lstm", "encoder"])
def test_dropout_inside_modules_takes_them_too(name):
    x = torch.rand(20, device="npu") + 1
    assert torch.equal(DROPPING[name](x), DROPPING[name](x)), "the same seed before each call"


def test_dropout_keeps_its_share_and_its_derivative():
    x = torch.ones(200_000, device="npu", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.3)
    assert abs((y == 0).float().mean().item() - 0.3) < 0.01
    assert y.detach().unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    out, mask = torch.native_dropout(x.detach(), 0.3, False)
    assert torch.equal(out, x) and mask.all() and mask.dtype == torch.bool
    out, mask = torch.native_dropout(x.detach(), 1.0, True)
    assert not out.any() and not mask.any()
    with pytest.raises(RuntimeError, match=r"between 0 and 1, but got 2"):
        torch.native_dropout(x.detach(), 2.0, True)


def test_what_nobody_wrote_is_fixed_where_that_is_asked():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(4, device="npu").isnan().all()
        assert torch.empty_strided((2, 2), (1, 2), dtype=torch.complex64, device="npu").isnan().all()
        assert (torch.empty(3, dtype=torch.int32, device="npu") == torch.iinfo(torch.int32).max).all()
    finally:
        torch.use_deterministic_algorithms(False)
