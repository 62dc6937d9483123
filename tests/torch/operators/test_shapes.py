"""torch.ops.npu: shapes, slices, scatter and gather."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

torch_npu.operators.register()
ops = torch.ops.npu


def _range(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).npu()


def test_broadcast_is_materialised() -> None:
    result = ops.npu_broadcast(_range(3, 1), [2, 3, 4])
    assert result.is_contiguous() and torch.equal(result, _range(3, 1).expand(2, 3, 4))
    out = torch.empty(0).npu()
    assert torch.equal(ops.npu_broadcast.out(_range(3, 1), [3, 4], out=out), _range(3, 1).expand(3, 4))


@pytest.mark.parametrize(("first", "perm", "shape"), [(True, (0, 2, 1, 3), (2, 4, 15)), (False, (1, 0, 2), (6, 4, 5))])
def test_confusion_transpose_and_its_gradient(first: bool, perm: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = _range(2, 3, 4, 5).requires_grad_()
    y = ops.npu_confusion_transpose(x, perm, shape, first)
    wanted = x.permute(perm).reshape(shape) if first else x.reshape(shape).permute(perm)
    assert torch.equal(y, wanted)
    grad = torch.randn_like(y)
    (theirs,) = torch.autograd.grad(wanted, x, grad)
    assert torch.equal(torch.autograd.grad(y, x, grad)[0], theirs)
    assert torch.equal(ops.npu_confusion_transpose_backward(grad, perm, x.shape, first), theirs)


def test_gather_sparse_index() -> None:
    x = _range(6, 2).requires_grad_()
    index = torch.tensor([[0, 5], [5, 2]]).npu()
    y = ops.npu_gather_sparse_index(x, index)
    assert torch.equal(y, x[index])
    grad = torch.randn_like(y)
    results = ops.npu_gather_sparse_index_backward(grad, x.shape, index)
    torch.testing.assert_close(results, torch.autograd.grad(x[index], x, grad)[0])


def test_index_add() -> None:
    x, source = torch.zeros(4, 2).npu(), _range(3, 2)
    index = torch.tensor([1, 3, 1], dtype=torch.int32).npu()
    wanted = x.index_add(0, index, source, alpha=2)
    assert torch.equal(ops._npu_index_add(x, index, source, alpha=2), wanted) and not x.any()
    ops._npu_index_add_(x, index, source, alpha=2)
    assert torch.equal(x, wanted)
    with pytest.raises((RuntimeError, IndexError), match="out of range"):
        ops._npu_index_add(x, index + 2, source)


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks", "same"),
    [
        ([0, 1, 1], [2, 3, 4], [1, 1, 2], (0, 0, 0, 0, 0), lambda x: x[0:2, 1:3, 1:4:2]),
        ([1], [2], [1], (0, 0, 0, 0, 1), lambda x: x[1]),
        ([0, 0], [0, 2], [1, 1], (0, 0, 1, 0, 0), lambda x: x[..., 0:2]),
        ([0, 0, 1], [0, 0, 2], [1, 1, 1], (0, 0, 2, 1, 4), lambda x: x[None, ..., 1]),
        ([5, -1], [-9, 0], [-1, -2], (0, 2, 0, 0, 0), lambda x: np.ascontiguousarray(x[::-1, ::-2])),
        ([1, 2], [2, 1], [1, -1], (1, 1, 0, 0, 0), lambda x: x[:, 2:1:-1]),
        ([1, 9], [9, 9], [1, 1], (2, 0, 0, 0, 0), lambda x: x[1:9, :9]),
    ],
)
def test_indexing_is_a_strided_slice_with_masks(begin, end, strides, masks, same) -> None:  # type: ignore[no-untyped-def]
    x = _range(2, 3, 4)
    wanted = torch.from_numpy(np.ascontiguousarray(same(x.cpu().numpy())))
    result = ops.npu_indexing(x, begin, end, strides, *masks)
    assert torch.equal(result.cpu(), wanted)
    out = torch.empty(0).npu()
    assert torch.equal(ops.npu_indexing.out(x, begin, end, strides, *masks, out=out).cpu(), wanted)


def test_indexing_refuses() -> None:
    with pytest.raises(RuntimeError, match="have 1, 2 and 1 entries"):
        ops.npu_indexing(_range(2, 2), [0], [1, 1], [1])
    with pytest.raises(RuntimeError, match="a stride is 0"):
        ops.npu_indexing(_range(2, 2), [0], [1], [0])


def test_masked_fill_range() -> None:
    x = _range(4, 4)
    start, end = torch.tensor([[0, 1, 2]]).npu(), torch.tensor([[1, 2, 3]]).npu()
    wanted = x.clone()
    for row in range(3):
        wanted[row, row] = -1
    assert torch.equal(ops.npu_masked_fill_range(x, start, end, torch.tensor([-1.0]).npu(), 1), wanted)
    two = torch.tensor([[0, 1, 2, 3], [3, 3, 0, 0]]).npu()
    result = ops.npu_masked_fill_range(x, two, two + 1, torch.tensor([-1.0, -2.0]).npu()).cpu()
    assert result.diagonal().tolist() == [-1, -1, -1, -1]
    assert [result[0, 3], result[1, 3], result[2, 0], result[3, 0]] == [-2] * 4
    with pytest.raises(RuntimeError, match="4 columns of ranges for 2 rows"):
        ops.npu_masked_fill_range(x[:2], two, two, torch.ones(2).npu())


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
def test_max_and_min_have_int32_indices(name: str, keepdim: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, 5).npu().requires_grad_()
    values, indices = getattr(ops, f"npu_{name}").dim(x, 1, keepdim)
    wanted = getattr(torch, name)(x, 1, keepdim)
    assert indices.dtype == torch.int32 and torch.equal(indices.long(), wanted.indices)
    assert torch.equal(values, wanted.values)
    grad = torch.randn_like(values)
    (theirs,) = torch.autograd.grad(wanted.values, x, grad)
    assert torch.equal(torch.autograd.grad(values, x, grad)[0], theirs)
    assert torch.equal(getattr(ops, f"npu_{name}_backward")(grad, 1, indices, x.shape, keepdim), theirs)


@pytest.mark.parametrize("kind", [0, 1])
def test_normalize_batch_over_the_valid_steps(kind: int) -> None:
    torch.manual_seed(0)
    x, lengths = torch.randn(2, 3, 6), [5, 6]
    result = ops.npu_normalize_batch(x.npu(), torch.tensor(lengths).npu(), kind).cpu()
    for sample, length in enumerate(lengths):
        valid = x[sample, :, :length]
        mean = valid.mean(1, keepdim=True) if kind == 0 else valid.mean()
        deviation = valid.std(1, keepdim=True) if kind == 0 else valid.std()
        torch.testing.assert_close(result[sample], (x[sample] - mean) / (deviation + 1e-5))


def test_one_hot_has_depth_columns_of_float() -> None:
    x = torch.tensor([5, 3, 2, 1], dtype=torch.int32).npu()
    result = ops.npu_one_hot(x, depth=5)
    assert result.dtype == torch.float32
    assert result.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert ops.npu_one_hot(x[1:2], -1, 4, 2, -1).tolist() == [[-1, -1, -1, 2]]
    with pytest.raises(RuntimeError, match="num_classes 6 is not the depth 5"):
        ops.npu_one_hot(x, 6, 5)


def test_pad_counts_from_the_first_dimension() -> None:
    x = torch.tensor([[20.0, 20, 10, 10]]).half().npu()
    result = ops.npu_pad(x, [1, 1, 1, 2])
    wanted = np.pad(x.cpu().numpy(), ((1, 1), (1, 2)))
    assert result.dtype == torch.half and np.array_equal(result.cpu().numpy(), wanted)
    with pytest.raises(RuntimeError, match="2 entries; an input of 2 dimensions needs 4"):
        ops.npu_pad(x, [1, 1])


def test_random_choice_of_true_positions() -> None:
    mask = (_range(6, 7) % 3 == 0).npu()
    places, valid = ops.npu_random_choice_with_mask(mask, 5, 1, 2)
    assert places.dtype == torch.int32 and places.shape == (5, 2) and valid.all()
    chosen = {tuple(one) for one in places.tolist()}
    assert len(chosen) == 5 and all(mask[one] for one in chosen)
    assert torch.equal(ops.npu_random_choice_with_mask(mask, 5, 1, 2)[0], places)
    few, there = ops.npu_random_choice_with_mask(torch.tensor([False, True]).npu(), 3)
    assert few.tolist() == [[1], [0], [0]] and there.tolist() == [True, False, False]
    results = []
    for _ in range(2):
        torch.npu.manual_seed(5)
        results.append(ops.npu_random_choice_with_mask(mask, 5)[0])
    assert torch.equal(*results)


def test_sub_sample_keeps_a_fraction_of_positives() -> None:
    torch.manual_seed(0)
    labels = torch.tensor([1] * 20 + [0] * 30 + [-1] * 5 + [7] * 5, dtype=torch.int32)[torch.randperm(60)].npu()
    result = ops.npu_sub_sample(labels, 16, 0.5)
    assert result.dtype == torch.int32 and (result == 1).sum() == 8 and (result == 0).sum() == 8
    assert torch.equal(result[result >= 0], labels[result >= 0])
    few = torch.tensor([-2, 3, 6, -7, -2, 8, 1, -5, 7, 4], dtype=torch.int32).npu()
    assert ops.npu_sub_sample(few, 5, 0.6).tolist() == [-1] * 6 + [1] + [-1] * 3


def test_reshape_slice_sort_transpose() -> None:
    x = _range(2, 3, 4)
    assert torch.equal(ops.npu_reshape(x, [4, 6]), x.reshape(4, 6))
    assert ops.npu_reshape(x, [4, 6], True).data_ptr() == x.data_ptr() != ops.npu_reshape(x, [4, 6]).data_ptr()
    assert torch.equal(ops.npu_slice(x, [0, 1, 2], [2, 2, -1]), x[0:2, 1:3, 2:])
    with pytest.raises(RuntimeError, match="2 offsets and 3 sizes for 3 dimensions"):
        ops.npu_slice(x, [0, 0], [1, 1, 1])
    y = torch.tensor([[3.0, 1, 2], [0, 9, 4]]).npu()
    assert torch.equal(ops.npu_sort_v2(y, -1, True), y.sort(-1, True).values)
    with pytest.raises(RuntimeError, match="only the last dimension can be sorted, not 0"):
        ops.npu_sort_v2(y, 0)
    turned = ops.npu_transpose(x, [2, 0, 1])
    assert torch.equal(turned, x.permute(2, 0, 1)) and turned.is_contiguous()
    assert not ops.npu_transpose(x, [2, 0, 1], False).is_contiguous()
    for found, wanted in (
        (ops.npu_reshape.out(x, [4, 6], out=torch.empty(0).npu()), x.reshape(4, 6)),
        (ops.npu_slice.out(x, [0, 0, 0], [1, 1, 2], out=torch.empty(0).npu()), x[:1, :1, :2]),
        (ops.npu_sort_v2.out(y, out=torch.empty(0).npu()), y.sort(-1).values),
        (ops.npu_transpose.out(x, [2, 0, 1], out=torch.empty(0).npu()), turned),
    ):
        assert torch.equal(found, wanted)


def test_scatter_forms() -> None:
    x = torch.tensor([[1.6279, 0.1226], [0.9041, 1.0980]]).npu()
    result = ops.npu_scatter(
        x, torch.tensor([0, 1], dtype=torch.int32).npu(), torch.tensor([-1.1993, -1.5247]).npu(), 0
    )
    torch.testing.assert_close(result.cpu(), torch.tensor([[-1.1993, 0.1226], [0.9041, -1.5247]]))
    target = torch.zeros(4, 3).npu()
    places, rows = torch.tensor([[3], [1]]).npu(), _range(2, 3) + 1
    copy = ops.npu_scatter_nd_update(target, places, rows)
    assert copy[[3, 1]].tolist() == rows.tolist() and not target.any() and not copy[[0, 2]].any()
    assert ops.npu_scatter_nd_update_(target, torch.tensor([[0, 2], [2, 0]]).npu(), _range(2) + 5)[2, 0] == 6
    assert target[0, 2] == 5
    with pytest.raises(RuntimeError, match="the last dimension of indices is 3"):
        ops.npu_scatter_nd_update(target, torch.zeros(1, 3, dtype=torch.long).npu(), rows)


def test_scatter_update_writes_at_the_position_of_each_batch() -> None:
    cache = torch.zeros(2, 3, 6, 4).npu()
    updates = torch.randn(2, 3, 2, 4).npu()
    places = torch.tensor([1, 4]).npu()
    wanted = cache.clone()
    wanted[0, :, 1:3], wanted[1, :, 4:6] = updates[0], updates[1]
    assert torch.equal(ops.scatter_update(cache, places, updates, -2), wanted) and not cache.any()
    assert ops.scatter_update_(cache, places, updates, 2).data_ptr() == cache.data_ptr()
    assert torch.equal(cache, wanted)
    with pytest.raises(RuntimeError, match="3 indices for a batch of 2"):
        ops.scatter_update(cache, torch.zeros(3, dtype=torch.long).npu(), updates, -2)


def test_scatter_list_updates_caches_of_their_own() -> None:
    caches = [torch.zeros(3, 6, 4).npu() for _ in range(2)]
    updates = torch.randn(2, 3, 2, 4).npu()
    result = ops.npu_scatter_list(caches, torch.tensor([2, 4]).npu(), updates)
    assert torch.equal(result[0][:, 2:4], updates[0]) and torch.equal(result[1][:, 4:], updates[1])
    assert not any(one.any() for one in caches)
    mask = torch.tensor([0, 1], dtype=torch.uint8).npu()
    ops.npu_scatter_list_(caches, torch.tensor([[0, 2], [3, 1]]).npu(), updates, mask)
    assert not caches[0].any() and torch.equal(caches[1][:, 3], updates[1, :, 0]) and not caches[1][:, 4:].any()
    with pytest.raises(RuntimeError, match="reduce must be 'update', not 'add'"):
        ops.npu_scatter_list_(caches, torch.tensor([0, 0]).npu(), updates, None, "add")


def test_sign_bits() -> None:
    x = torch.tensor([5.0, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2]).npu()
    packed = ops.npu_sign_bits_pack(x, 2)
    assert packed.dtype == torch.uint8 and packed.tolist() == [[159], [15]]
    back = ops.npu_sign_bits_unpack(packed, 2, torch.float16)
    assert back.dtype == torch.float16 and back.shape == (2, 8)
    assert back.flatten()[:14].tolist() == [1 if one >= 0 else -1 for one in x.tolist()]
    with pytest.raises(RuntimeError, match="2 bytes cannot be 3 rows"):
        ops.npu_sign_bits_pack(x, 3)


def test_stride_add_counts_blocks_of_channels() -> None:
    a, b = _range(1, 32, 1, 1), _range(1, 48, 1, 1)
    result = ops.npu_stride_add(a, b, 1, 2, 1)
    assert torch.equal(result, a[:, 16:32] + b[:, 32:48])
    narrow = ops.npu_stride_add(_range(1, 10, 2, 2), _range(1, 10, 2, 2), 0, 0, 1)
    assert narrow.shape == (1, 16, 2, 2) and torch.equal(narrow[:, :10], 2 * _range(1, 10, 2, 2))
    blocked = _range(1, 3, 2, 2, 16)
    assert torch.equal(ops.npu_stride_add(blocked, blocked, 1, 0, 2), blocked[:, 1:3] + blocked[:, :2])


def test_small_ones_and_fake_shapes() -> None:
    x = _range(2, 3)
    assert ops.one_(x.clone()).sum() == 6
    assert torch.equal(ops.reverse(x, [0, 1]), x.flip(0, 1))
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert ops.npu_indexing(fake, [0, 0], [2, 3], [1, 2]).shape == (2, 2)
        assert ops.npu_pad(fake, [1, 0, 0, 2]).shape == (3, 5)
        assert ops.npu_max.dim(fake, 0)[1].dtype == torch.int32
        assert ops.npu_one_hot(fake.long(), depth=7).shape == (2, 3, 7)
