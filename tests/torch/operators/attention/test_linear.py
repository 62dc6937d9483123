"""The gated delta rule and its causal convolution, against loops over single tokens in float64."""

from __future__ import annotations

import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

torch_npu.operators.register()
ops = torch.ops.npu
HEADS, GROUP, DK, DV = 2, 2, 4, 3


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(
        dtype
    )


def operands(tokens: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    norm = torch.nn.functional.normalize
    made = {
        "query": norm(rand(tokens, HEADS, DK), dim=-1),
        "key": norm(rand(tokens, HEADS, DK, seed=1), dim=-1),
        "value": rand(tokens, HEADS * GROUP, DV, seed=2),
        "beta": rand(tokens, HEADS * GROUP, seed=3).sigmoid(),
        "g": -rand(tokens, HEADS * GROUP, seed=4).exp() / 4,
    }
    return {
        name: one.to(torch.float32 if name == "g" and dtype != torch.float64 else dtype) for name, one in made.items()
    }


def naive(state: Tensor, given: dict[str, Tensor], rows: range, scale: float, gk: Tensor | None = None):
    """Every state after a token, and every output, by explicit loops over tokens and heads."""
    state, states, outs = state.double().clone(), [], []
    for t in rows:
        out = torch.zeros(HEADS * GROUP, DV, dtype=torch.float64)
        for h in range(HEADS * GROUP):
            q, k = (given[name][t, h // GROUP].double() for name in ("query", "key"))
            v, s = given["value"][t, h].double(), state[h]
            if "g" in given:
                s = s * given["g"][t, h].double().exp()
            if gk is not None:
                s = s * gk[t, h].double().exp()[None, :]
            b = given["beta"][t, h].double() if "beta" in given else 1.0
            s = s + b * torch.outer(v - s @ k, k)
            state[h], out[h] = s, s @ (q * scale)
        states.append(state.clone())
        outs.append(out)
    return states, torch.stack(outs) if outs else torch.zeros(0, HEADS * GROUP, DV, dtype=torch.float64)


def on_npu(given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.npu() for name, one in given.items()}


def close(found: Tensor, wanted: Tensor, limit: float = 1e-9) -> None:
    torch.testing.assert_close(found.cpu().double(), wanted.double(), rtol=limit, atol=limit)


@pytest.mark.parametrize("lengths", [None, [9], [1, 0, 5, 3]])
def test_recurrent_rule_with_one_state_a_sequence(lengths: list[int] | None) -> None:
    given, gk = operands(9), -rand(9, HEADS * GROUP, DK, seed=5).exp() / 8
    counts = lengths or [9]
    pool = rand(len(counts), HEADS * GROUP, DV, DK, seed=6)
    moved, kept = on_npu(given) | {"gk": gk.npu()}, pool.npu()
    if lengths:
        moved["actual_seq_lengths"] = torch.tensor(lengths, dtype=torch.int32).npu()
    q, k, v = (moved.pop(name) for name in ("query", "key", "value"))
    out, after = ops.npu_recurrent_gated_delta_rule_functional(q, k, v, kept, scale=0.7, **moved)
    close(kept, pool)
    start, wanted = 0, pool.clone()
    for number, count in enumerate(counts):
        states, outs = naive(pool[number], given, range(start, start + count), 0.7, gk)
        close(out[start : start + count], outs)
        wanted[number] = states[-1] if states else pool[number]
        start += count
    close(after, wanted)
    again = ops.npu_recurrent_gated_delta_rule(q, k, v, kept, scale=0.7, **moved)
    close(again, out.cpu())
    close(kept, wanted)


def test_recurrent_rule_keeps_the_state_of_each_draft() -> None:
    given, pool = operands(5), rand(8, HEADS * GROUP, DV, DK, seed=7)
    moved, kept = on_npu(given), pool.npu()
    slots = torch.tensor([3, 1, 6, 2, -1], dtype=torch.int32)
    q, k, v = (moved.pop(name) for name in ("query", "key", "value"))
    out = ops.npu_recurrent_gated_delta_rule(
        q, k, v, kept, actual_seq_lengths=torch.tensor([3, 2]).npu(), ssm_state_indices=slots.npu(),
        num_accepted_tokens=torch.tensor([2, 1], dtype=torch.int32).npu(), **moved,
    )  # fmt: skip
    first, outs1 = naive(pool[1], given, range(3), DK**-0.5)  # the slot of the second token, which was accepted last
    second, outs2 = naive(pool[2], given, range(3, 5), DK**-0.5)
    close(out, torch.cat((outs1, outs2)))
    wanted = pool.clone()
    for slot, state in zip([3, 1, 6, 2], [*first, second[0]], strict=True):
        wanted[slot] = state
    close(kept, wanted)


@pytest.mark.parametrize("lengths", [None, [70, 0, 130, 3]])
def test_chunked_rule_is_the_recurrence(lengths: list[int] | None) -> None:
    total = sum(lengths) if lengths else 100
    given = operands(total)
    counts = lengths or [total]
    pool = rand(len(counts), HEADS * GROUP, DV, DK, seed=8)
    moved = on_npu(given)
    if lengths:
        moved["actual_seq_lengths"] = torch.tensor(lengths).npu()
    out, after = ops.npu_chunk_gated_delta_rule(**moved, initial_state=pool.npu())
    start = 0
    for number, count in enumerate(counts):
        states, outs = naive(pool[number], given, range(start, start + count), DK**-0.5)
        close(out[start : start + count], outs)
        close(after[number], states[-1] if states else pool[number])
        start += count


def test_chunked_rule_without_gates_and_states() -> None:
    given = {name: one for name, one in operands(20).items() if name not in ("g", "beta")}
    out, after = ops.npu_chunk_gated_delta_rule(**on_npu(given), scale=1.0)
    states, outs = naive(torch.zeros(HEADS * GROUP, DV, DK), given, range(20), 1.0)
    close(out, outs)
    close(after[0], states[-1])


def test_strong_decay_does_not_overflow() -> None:
    given = operands(80)
    given["g"] = torch.full_like(given["g"], -40.0)
    out, _ = ops.npu_chunk_gated_delta_rule(**on_npu(given))
    close(out, naive(torch.zeros(HEADS * GROUP, DV, DK), given, range(80), DK**-0.5)[1])


def test_equal_keys_do_not_blow_up() -> None:
    """Powers of this system's triangle reach 1e18; its inverse is small."""
    given = operands(128, torch.float32)
    given["key"] = given["key"][:1].expand(128, -1, -1).contiguous()
    given["beta"], given["g"] = torch.ones_like(given["beta"]), torch.zeros_like(given["g"])
    out, after = ops.npu_chunk_gated_delta_rule(**on_npu(given))
    states, outs = naive(torch.zeros(HEADS * GROUP, DV, DK), given, range(128), DK**-0.5)
    close(out, outs, 1e-4)
    close(after[0], states[-1], 1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    given = operands(66, dtype)
    limit = 1e-2
    outs = naive(torch.zeros(HEADS * GROUP, DV, DK), given, range(66), DK**-0.5)[1]
    out, after = ops.npu_chunk_gated_delta_rule(**on_npu(given))
    assert out.dtype == dtype and after.dtype == torch.float32
    close(out, outs, limit)
    moved = on_npu(given)
    q, k, v = (moved.pop(name) for name in ("query", "key", "value"))
    state = torch.zeros(1, HEADS * GROUP, DV, DK, dtype=dtype).npu()
    close(ops.npu_recurrent_gated_delta_rule(q, k, v, state, **moved), outs, limit)
    close(state.float(), after.cpu(), limit)


def test_derivatives_are_those_of_the_formula() -> None:
    given = operands(5)
    names = ("query", "key", "value", "beta", "g")
    leaves = [given[name].npu().requires_grad_() for name in names]
    state = rand(1, HEADS * GROUP, DV, DK).npu().requires_grad_()

    def chunk(*args: Tensor) -> tuple[Tensor, Tensor]:
        return ops.npu_chunk_gated_delta_rule(*args[:3], beta=args[3], g=args[4], initial_state=args[5])

    def recurrent(*args: Tensor) -> tuple[Tensor, Tensor]:
        return ops.npu_recurrent_gated_delta_rule_functional(*args[:3], args[5], beta=args[3], g=args[4])

    assert gradcheck(chunk, (*leaves, state), fast_mode=True) and gradcheck(recurrent, (*leaves, state), fast_mode=True)


def test_shapes_of_fake_tensors_and_compiled_programs() -> None:
    moved = on_npu(operands(6)) | {"actual_seq_lengths": torch.tensor([4, 2]).npu()}
    pool = rand(2, HEADS * GROUP, DV, DK).npu()
    with FakeTensorMode() as mode:
        fakes = {name: mode.from_tensor(one) for name, one in moved.items()}
        out, after = ops.npu_chunk_gated_delta_rule(**fakes)
    assert out.shape == (6, HEADS * GROUP, DV) and after.shape == (2, HEADS * GROUP, DV, DK)
    step = torch.compile(
        lambda given, state: ops.npu_chunk_gated_delta_rule(**given, initial_state=state), backend="aot_eager"
    )
    for found, wanted in zip(
        step(moved, pool), ops.npu_chunk_gated_delta_rule(**moved, initial_state=pool), strict=True
    ):
        close(found, wanted.cpu())


def test_bad_arguments_of_the_rule() -> None:
    given, pool = on_npu(operands(6)), rand(2, HEADS * GROUP, DV, DK).npu()
    with pytest.raises(RuntimeError, match=r"must count the 6 tokens"):
        ops.npu_chunk_gated_delta_rule(**given, actual_seq_lengths=torch.tensor([4, 4]).npu())
    with pytest.raises(RuntimeError, match="initial_state must be"):
        ops.npu_chunk_gated_delta_rule(**given, initial_state=pool.transpose(2, 3))
    with pytest.raises(RuntimeError, match="beta must be"):
        ops.npu_chunk_gated_delta_rule(**given | {"beta": given["beta"][:, :1]})
    q, k, v = (given.pop(name) for name in ("query", "key", "value"))
    with pytest.raises(RuntimeError, match="no multiple"):
        ops.npu_recurrent_gated_delta_rule(q, k, v[:, :3], pool)
    with pytest.raises(RuntimeError, match="ssm_state_indices must be a vector of 6"):
        ops.npu_recurrent_gated_delta_rule(q, k, v, pool, ssm_state_indices=torch.tensor([0]).npu())
    with pytest.raises(RuntimeError, match="num_accepted_tokens chooses"):
        ops.npu_recurrent_gated_delta_rule(q, k, v, pool, num_accepted_tokens=torch.tensor([1]).npu())


TAPS, CHANNELS = 4, 5


def conv(history: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """One sequence after its history, token by token."""
    whole, out = torch.cat((history, x)).double(), []
    for t in range(x.shape[0]):
        y = sum(whole[t + tap] * weight[tap].double() for tap in range(TAPS))
        y = y if bias is None else y + bias.double()
        out.append(y / (1 + torch.exp(-y)) if silu else y)
    return torch.stack(out) if out else torch.zeros(0, CHANNELS, dtype=torch.float64)


@pytest.mark.parametrize("in_place", [False, True])
def test_convolution_of_prefill(in_place: bool) -> None:
    x, weight, bias = rand(9, CHANNELS), rand(TAPS, CHANNELS, seed=1), rand(CHANNELS, seed=2)
    states = rand(6, TAPS, CHANNELS, seed=3)
    bounds, slots, modes = [0, 2, 2, 7, 8, 9], [4, 0, 2, -1, 1], [1, 1, 0, 1, 1]
    kept, moved = states.npu(), x.npu()
    operator = ops.npu_fused_causal_conv1d_v2 if in_place else ops.npu_fused_causal_conv1d
    out = operator(
        moved, weight.npu(), kept, query_start_loc=torch.tensor(bounds, dtype=torch.int32).npu(),
        cache_indices=torch.tensor(slots, dtype=torch.int32).npu(), initial_state_mode=torch.tensor(modes).npu(),
        bias=bias.npu(), activation="silu",
    )  # fmt: skip
    out = moved if in_place else out
    wanted, after = torch.zeros(9, CHANNELS, dtype=torch.float64), states.clone()
    for number, slot in enumerate(slots):
        start, end = bounds[number], bounds[number + 1]
        if slot < 0:
            continue
        history = states[slot, : TAPS - 1] if modes[number] else torch.zeros(TAPS - 1, CHANNELS, dtype=torch.float64)
        wanted[start:end] = conv(history, x[start:end], weight, bias, True)
        after[slot, : TAPS - 1] = torch.cat((history, x[start:end]))[-(TAPS - 1) :]
    close(out, wanted)
    close(kept, after)


def test_convolution_of_decode_goes_on_where_prefill_ended() -> None:
    x, weight = rand(2, 6, CHANNELS), rand(TAPS, CHANNELS, seed=1)
    whole = torch.zeros(2, TAPS - 1, CHANNELS, dtype=torch.float64).npu()
    wanted = ops.npu_fused_causal_conv1d(x.npu(), weight.npu(), whole)
    pool = rand(2, TAPS - 1, CHANNELS, seed=4).npu()
    parts = [ops.npu_fused_causal_conv1d(x[:, :3].contiguous().npu(), weight.npu(), pool)]
    parts += [
        ops.npu_fused_causal_conv1d(x[:, t : t + 1].contiguous().npu(), weight.npu(), pool, run_mode=1)
        for t in (3, 4, 5)
    ]
    close(torch.cat(parts, 1), wanted.cpu())
    close(pool, whole.cpu())
    plus = ops.npu_fused_causal_conv1d(x.npu(), weight.npu(), whole, residual_connection=1)
    close(plus, wanted.cpu() + x)


def test_convolution_takes_back_drafts() -> None:
    """Three drafts a step of which some are accepted: the same as the accepted tokens one after another."""
    weight, drafts = rand(TAPS, CHANNELS, seed=1), 3
    pool = rand(2, TAPS - 1 + drafts - 1, CHANNELS, seed=5)
    real = [pool[number, : TAPS - 1].clone() for number in range(2)]
    kept, accepted = pool.npu(), [1, 1]
    for step, taken in enumerate([[2, 3], [1, 2], [3, 1]]):
        x = rand(2, drafts, CHANNELS, seed=10 + step)
        out = ops.npu_fused_causal_conv1d(
            x.npu(), weight.npu(), kept, run_mode=1, num_accepted_tokens=torch.tensor(accepted, dtype=torch.int32).npu()
        )
        for number in range(2):
            close(out[number], conv(real[number], x[number], weight, None, False))
            real[number] = torch.cat((real[number], x[number, : taken[number]]))[-(TAPS - 1) :]
        accepted = taken


def test_convolution_in_half_precision_and_for_fake_tensors() -> None:
    x, weight = rand(1, 6, CHANNELS, dtype=torch.bfloat16), rand(TAPS, CHANNELS, seed=1, dtype=torch.bfloat16)
    pool = torch.zeros(1, TAPS - 1, CHANNELS, dtype=torch.bfloat16)
    out = ops.npu_fused_causal_conv1d(x.npu(), weight.npu(), pool.npu())
    assert out.dtype == torch.bfloat16
    close(out[0], conv(pool[0], x[0], weight, None, False), 1e-2)
    moved = [one.npu() for one in (x[0], weight, pool, torch.tensor([0, 6]), torch.tensor([0]))]
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(one) for one in moved]
        fake = ops.npu_fused_causal_conv1d(*fakes[:3], query_start_loc=fakes[3], cache_indices=fakes[4])
    assert fake.shape == (6, CHANNELS) and fake.dtype == torch.bfloat16


def test_bad_arguments_of_the_convolution() -> None:
    x, weight = rand(2, 3, CHANNELS).npu(), rand(TAPS, CHANNELS).npu()
    pool = rand(2, TAPS - 1, CHANNELS).npu()
    with pytest.raises(RuntimeError, match="weight must be"):
        ops.npu_fused_causal_conv1d(x, weight.t(), pool)
    with pytest.raises(RuntimeError, match="needs query_start_loc"):
        ops.npu_fused_causal_conv1d(x[0], weight, pool)
    with pytest.raises(RuntimeError, match="activation must be"):
        ops.npu_fused_causal_conv1d(x, weight, pool, activation="tanh")
    with pytest.raises(NotImplementedError, match="num_computed_tokens"):
        ops.npu_fused_causal_conv1d(x, weight, pool, num_computed_tokens=torch.tensor([0, 0]).npu())
    with pytest.raises(NotImplementedError, match="residual_connection with"):
        ops.npu_fused_causal_conv1d(x, weight, pool, residual_connection=1, activation="silu")
    with pytest.raises(NotImplementedError, match="conv_mode"):
        ops.npu_fused_causal_conv1d(x, weight, pool, conv_mode="other")
    with pytest.raises(RuntimeError, match="all drafts are"):
        ops.npu_fused_causal_conv1d(x, weight, pool, num_accepted_tokens=torch.tensor([1, 1]).npu())
