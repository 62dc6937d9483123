"""Rotated projections with int8 caches, against loops over tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.torch.operators.attention.test_inference import OPS, check, rand

BATCH, ROWS, Q, KV, WIDTH = 2, 3, 4, 2, 8
SPLITS = [Q * WIDTH, KV * WIDTH, KV * WIDTH]


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One head of one token, element by element."""
    half = WIDTH // 2
    return torch.stack([x[i] * cos[i] + (-x[i + half] if i < half else x[i - half]) * sin[i] for i in range(WIDTH)])


def wanted(x: Tensor, cos: Tensor, sin: Tensor, scales: list[Tensor], offsets: list[Tensor] | None):
    """Query, key, value, and the int8 of key and value, [batch, rows, heads, width]."""
    heads = x.double().view(BATCH, ROWS, -1, WIDTH)
    out = heads.clone()
    for b in range(BATCH):
        for r in range(ROWS):
            for h in range(Q + KV):
                out[b, r, h] = turned(heads[b, r, h], cos[b, r, 0].double(), sin[b, r, 0].double())
    q, k, v = out.split([Q, KV, KV], 2)
    stored = [
        torch.round(one / scale.double() + (0 if offsets is None else offsets[at].double())).clamp(-128, 127)
        for at, (one, scale) in enumerate(zip((k, v), scales, strict=True))
    ]
    return q, k, v, *stored


def tables() -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    scales = [rand(KV, WIDTH, seed=seed).abs() / 20 + 0.05 for seed in (1, 2)]
    offsets = [rand(KV, WIDTH, seed=seed).round() for seed in (3, 4)]
    return rand(BATCH, ROWS, 1, WIDTH, seed=5), rand(BATCH, ROWS, 1, WIDTH, seed=6), scales, offsets


def near(found: Tensor, expected: Tensor) -> None:
    """A value on the border between two integers may fall to either."""
    assert (found.cpu().double() - expected).abs().max() <= 1
    assert (found.cpu().double() != expected).double().mean() < 0.02


@pytest.mark.parametrize("mode", ["contiguous", "page"])
def test_caches_of_int8(mode: str) -> None:
    x, (cos, sin, scales, offsets) = rand(BATCH, ROWS, sum(SPLITS)), tables()
    caches = [torch.full((BATCH, 7, KV, WIDTH), 99, dtype=torch.int8).npu() for _ in range(2)]
    index = torch.tensor([1, 4]) if mode == "contiguous" else torch.tensor([0, 9, 3, 13, 6, 7])
    slots = [1, 2, 3, 11, 12, 13] if mode == "contiguous" else index.tolist()
    moved = [one.npu() for one in (x, cos, sin)]
    result = OPS.npu_rope_quant_kvcache(
        *moved, *caches, index.int().npu(), scales[0].npu(), scales[1].npu(), SPLITS, offset_k=offsets[0].npu(),
        offset_v=offsets[1].npu(), kv_output=True, cache_mode=mode,
    )  # fmt: skip
    q, k, v, *stored = wanted(x, cos, sin, scales, offsets)
    for one, expected in zip(result[:3], (q, k, v), strict=True):
        check(one, expected)
    for cache, returned, expected in zip(caches, result[3:], stored, strict=True):
        flat = cache.view(-1, KV, WIDTH)
        near(flat[slots], expected.flatten(0, 1))
        rest = [one for one in range(BATCH * 7) if one not in slots]
        assert (flat[rest] == 99).all() and torch.equal(returned, cache)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_without_outputs_of_key_and_value(dtype: torch.dtype) -> None:
    x, (cos, sin, scales, _) = rand(BATCH, ROWS, sum(SPLITS)).to(dtype), tables()
    caches = [torch.zeros(BATCH, ROWS, KV, WIDTH, dtype=torch.int8).npu() for _ in range(2)]
    start = torch.zeros(BATCH, dtype=torch.int32).npu()
    q, k, v, *_ = OPS.npu_rope_quant_kvcache(
        x.npu(), cos.to(dtype).npu(), sin.to(dtype).npu(), *caches, start, scales[0].npu(), scales[1].npu(), SPLITS
    )
    expected = wanted(x, cos.to(dtype), sin.to(dtype), scales, None)
    assert q.dtype == dtype and k.numel() == v.numel() == 0
    check(q, expected[0], 2e-2)
    assert (caches[1].cpu().double() - expected[4]).abs().max() <= 1


def test_sums_become_numbers_first() -> None:
    made = torch.Generator().manual_seed(0)
    hidden = sum(SPLITS)
    sums = torch.randint(-2000, 2000, (BATCH, ROWS, hidden), generator=made, dtype=torch.int32)
    weight, token = torch.rand(hidden, generator=made) / 500, torch.rand(BATCH * ROWS, generator=made) + 0.5
    cos, sin, scales, _ = tables()
    index = torch.zeros(BATCH, dtype=torch.int32).npu()
    for bias in (
        torch.randint(-50, 50, (hidden,), generator=made, dtype=torch.int32),
        torch.randn(hidden, generator=made),
    ):
        caches = [torch.zeros(BATCH, ROWS, KV, WIDTH, dtype=torch.int8).npu() for _ in range(2)]
        result = OPS.npu_dequant_rope_quant_kvcache(
            sums.npu(), cos.npu(), sin.npu(), *caches, index, scales[0].npu(), scales[1].npu(), SPLITS,
            weight_scale=weight.npu(), activation_scale=token.npu(), bias=bias.npu(), kv_output=True,
        )  # fmt: skip
        factor = weight.double() * token.double().view(BATCH, ROWS, 1)
        numbers = (sums + bias) * factor if bias.dtype == torch.int32 else sums * factor + bias
        expected = wanted(numbers, cos, sin, scales, None)
        for one, right in zip(result[:3], expected[:3], strict=True):
            check(one, right, 1e-4)
        near(caches[0], expected[3])
    with pytest.raises(RuntimeError, match="need a weight_scale"):
        OPS.npu_dequant_rope_quant_kvcache(
            sums.npu(), cos.npu(), sin.npu(), *caches, index, scales[0].npu(), scales[1].npu(), SPLITS
        )


def test_bad_arguments() -> None:
    x, (cos, sin, scales, _) = rand(BATCH, ROWS, sum(SPLITS)), tables()
    caches = [torch.zeros(BATCH, ROWS, KV, WIDTH, dtype=torch.int8).npu() for _ in range(2)]
    given = [one.npu() for one in (x, cos, sin)]
    index, both = torch.zeros(BATCH, dtype=torch.int32).npu(), [one.npu() for one in scales]

    def call(splits: list[int] = SPLITS, index: Tensor = index, cache: Tensor = caches[0], **options: object) -> object:
        return OPS.npu_rope_quant_kvcache(*given, cache, caches[1], index, *both, splits, **options)

    with pytest.raises(RuntimeError, match="size_splits"):
        call([Q * WIDTH, WIDTH, WIDTH])
    with pytest.raises(RuntimeError, match="caches need 6 indices"):
        call(cache_mode="page")
    with pytest.raises(RuntimeError, match="cache_mode must be"):
        call(cache_mode="other")
    with pytest.raises(RuntimeError, match="a cache of shape"):
        call(cache=caches[0][:, :, :1])
    with pytest.raises(NotImplementedError, match="quant_mode 1"):
        call(quant_mode=1)
    with pytest.raises(RuntimeError, match="input_layout must be BSND"):
        call(input_layout="TND")
