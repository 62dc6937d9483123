"""torch.ops.npu: rotary embeddings against complex numbers."""

from __future__ import annotations

import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

torch_npu.operators.register()
ops = torch.ops.npu


def _angles(length: int, width: int) -> Tensor:
    """[length, width / 2]"""
    return torch.outer(torch.arange(length), 10000 ** (-torch.arange(0, width, 2) / width)).double()


def _tables(angles: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    whole = torch.cat((angles, angles), -1) if mode == "half" else angles.repeat_interleave(2, -1)
    return whole.cos(), whole.sin()


def _turned(x: Tensor, angles: Tensor, mode: str) -> Tensor:
    """Pairs as complex numbers, multiplied by exp(i angle)."""
    half = x.shape[-1] // 2
    first, second = (x[..., :half], x[..., half:]) if mode == "half" else (x[..., ::2], x[..., 1::2])
    result = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    if mode == "half":
        return torch.cat((result.real, result.imag), -1)
    return torch.stack((result.real, result.imag), -1).flatten(-2)


@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("layout", ["BSND", "BNSD", "SBND"])
def test_rotary_mul_is_a_complex_product(mode: str, layout: str) -> None:
    torch.manual_seed(0)
    place = layout.index("S")
    shape, wide = [2, 3, 3, 8], [1, 1, 1, 8]
    shape[place] = wide[place] = 5
    x, angles = torch.randn(shape, dtype=torch.float64), _angles(5, 8)
    cos, sin = (one.reshape(wide) for one in _tables(angles, mode))
    wanted = _turned(x, angles.reshape(*wide[:-1], 4), mode)
    result = ops.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), mode)
    torch.testing.assert_close(result.cpu(), wanted)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_first_and_second_derivatives(mode: str) -> None:
    torch.manual_seed(0)
    shapes = ((2, 2, 2, 4), (1, 2, 1, 4), (2, 2, 1, 4))
    leaves = [torch.randn(shape, dtype=torch.float64).npu().requires_grad_() for shape in shapes]
    assert gradcheck(lambda *given: ops.npu_rotary_mul(*given, mode), leaves)
    assert gradgradcheck(lambda *given: ops.npu_rotary_mul(*given, mode), leaves)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_backward_operator_and_autograd_with_unequal_tables(mode: str) -> None:
    """Tables whose halves differ show which sine belongs to which of a pair."""
    torch.manual_seed(0)
    x, cos, sin = (
        torch.randn(shape, dtype=torch.float64).npu() for shape in ((2, 5, 3, 8), (1, 5, 1, 8), (2, 5, 1, 8))
    )
    first, second = (slice(0, 4), slice(4, 8)) if mode == "half" else (slice(0, 8, 2), slice(1, 8, 2))

    def formula(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rotated = torch.zeros_like(x)
        rotated[..., first], rotated[..., second] = -x[..., second], x[..., first]
        return x * cos + rotated * sin

    leaves = [one.requires_grad_() for one in (x, cos, sin)]
    grad = torch.randn_like(x)
    theirs = torch.autograd.grad(formula(*leaves), leaves, grad)
    mine = torch.autograd.grad(ops.npu_rotary_mul(*leaves, mode), leaves, grad)
    operator = ops.npu_rotary_mul_backward(grad, *(one.detach() for one in leaves), mode)
    for one, two, three in zip(theirs, mine, operator, strict=True):
        torch.testing.assert_close(two, one)
        torch.testing.assert_close(three, one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_mul_of_many_rows(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, angles = torch.randn(2, 1300, 4, 128), _angles(1300, 128)
    cos, sin = (one.reshape(1, 1300, 1, 128).to(dtype) for one in _tables(angles, "half"))
    x = x.to(dtype)
    wanted = _turned(x.double(), angles.reshape(1, 1300, 1, 64), "half")
    result = ops.npu_rotary_mul(x.npu(), cos.npu(), sin.npu())
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    assert result.dtype == dtype
    torch.testing.assert_close(result.cpu().double(), wanted, rtol=tolerance, atol=tolerance)


def test_rotation_matrix_does_what_the_mode_does() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64).npu()
    cos, sin = (one.reshape(1, 5, 1, 8).npu() for one in _tables(_angles(5, 8), "half"))
    matrix = torch.zeros(8, 8, dtype=torch.float64)
    matrix[4:, :4], matrix[:4, 4:] = -torch.eye(4), torch.eye(4)
    result = ops.npu_rotary_mul(x, cos, sin, "half", matrix.npu())
    torch.testing.assert_close(result, ops.npu_rotary_mul(x, cos, sin))


def test_apply_to_query_and_key_in_place() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 5, 4, 8).npu(), torch.randn(2, 5, 1, 8).npu()
    cos, sin = (one.float().reshape(1, 5, 1, 8).npu() for one in _tables(_angles(5, 8), "half"))
    wanted = [ops.npu_rotary_mul(one, cos, sin) for one in (query, key)]
    result = ops.npu_apply_rotary_pos_emb(query, key, cos, sin)
    for mine, theirs, given in zip(result, wanted, (query, key), strict=True):
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(given, theirs)
    with pytest.raises(RuntimeError, match="layout must be one of BSND, SBND, BNSD, TND, not 'BSH'"):
        ops.npu_apply_rotary_pos_emb(query, key, cos, sin, "BSH")


def test_apply_turns_only_the_width_of_the_tables() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 5, 4, 12).npu(), torch.randn(2, 5, 1, 12).npu()
    before = query.clone()
    cos, sin = (one.float().reshape(1, 5, 1, 8).npu() for one in _tables(_angles(5, 8), "half"))
    found, _ = ops.npu_apply_rotary_pos_emb(query, key, cos, sin)
    torch.testing.assert_close(found[..., :8], ops.npu_rotary_mul(before[..., :8].contiguous(), cos, sin))
    torch.testing.assert_close(found[..., 8:], before[..., 8:])


def test_interleave_rope_takes_the_pairs_apart() -> None:
    torch.manual_seed(0)
    x, angles = torch.randn(2, 3, 5, 8, dtype=torch.float64), _angles(5, 8)
    cos, sin = _tables(angles, "half")
    result = ops.npu_interleave_rope(x.npu(), cos.reshape(1, 1, 5, 8).npu(), sin.reshape(1, 1, 5, 8).npu())
    turned = _turned(x, angles.reshape(1, 1, 5, 4), "interleave")
    torch.testing.assert_close(result.cpu(), torch.cat((turned[..., ::2], turned[..., 1::2]), -1))


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_mrope_reads_the_cache_at_the_positions(mode: str) -> None:
    torch.manual_seed(0)
    angles = _angles(20, 8)
    cache = torch.cat((angles.cos(), angles.sin()), -1).npu()
    query, key = torch.randn(3, 16, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    places = torch.tensor([7, 0, 19])
    result = ops.npu_mrope(places.npu(), query.npu(), key.npu(), cache, 8, rotary_mode=mode)
    for mine, given in zip(result, (query, key), strict=True):
        wanted = _turned(given.reshape(3, -1, 8), angles[places].unsqueeze(1), mode).reshape(given.shape)
        torch.testing.assert_close(mine.cpu(), wanted)


def test_mrope_sections_come_from_their_rows() -> None:
    torch.manual_seed(0)
    angles = _angles(20, 8)
    cache = torch.cat((angles.cos(), angles.sin()), -1).npu()
    query = torch.randn(2, 8, dtype=torch.float64)
    rows = torch.tensor([[3, 4], [5, 6], [7, 8]])
    mixed = torch.cat((angles[rows[0]][:, :1], angles[rows[1]][:, 1:3], angles[rows[2]][:, 3:]), -1)
    found, _ = ops.npu_mrope(rows.npu(), query.npu(), query.npu(), cache, 8, mrope_section=[1, 2, 1])
    torch.testing.assert_close(found.cpu(), _turned(query, mixed, "half"))
    with pytest.raises(RuntimeError, match=r"mrope_section \[1, 1, 1\] must add up to 4"):
        ops.npu_mrope(rows.npu(), query.npu(), query.npu(), cache, 8, mrope_section=[1, 1, 1])
    with pytest.raises(NotImplementedError, match="cache_mode 'interleave'"):
        ops.npu_mrope(rows.npu(), query.npu(), query.npu(), cache, 8, cache_mode="interleave")


def test_tables_of_other_shapes_and_dtypes_broadcast() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 1, 8).npu().requires_grad_()
    cos, sin = (one.npu() for one in _tables(_angles(5, 8), "half"))
    flat = ops.npu_rotary_mul(x.detach()[:, 0].expand(5, 5, 8), cos.float(), sin.float())
    wide = ops.npu_rotary_mul(x.half(), cos.reshape(1, 5, 8), sin.reshape(1, 5, 8))
    assert flat.shape == wide.shape == (5, 5, 8) and wide.dtype == torch.float64
    more = ops.npu_rotary_mul(x, cos.float().reshape(1, 5, 8), sin.float().reshape(1, 5, 8))
    first, second = x.chunk(2, -1)
    wanted = x * cos.float() + torch.cat((-second, first), -1) * sin.float()
    torch.testing.assert_close(more, wanted)
    grads = [torch.autograd.grad(one.square().sum(), x)[0] for one in (more, wanted)]
    torch.testing.assert_close(*grads)


def test_fake_shapes_and_bad_arguments() -> None:
    x, table = torch.randn(2, 5, 3, 8).npu(), torch.ones(1, 5, 1, 8).npu()
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(one) for one in (x, table, table)]
        assert ops.npu_rotary_mul(*fakes).shape == x.shape
    with pytest.raises(RuntimeError, match="rotary_mode must be one of half, interleave, not 'quarter'"):
        ops.npu_rotary_mul(x, table, table, "quarter")
    with pytest.raises(RuntimeError, match="the last dimension has 7 elements; it must be even"):
        ops.npu_rotary_mul(x[..., :7], table[..., :7], table[..., :7])
