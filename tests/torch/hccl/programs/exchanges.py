"""Products with an all-to-all, plain, grouped and quantised, against the factors of all ranks computed by each."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main, refused
from torch import Tensor

ops = torch.ops.npu
ROWS, INNER, COLUMNS, LOCAL = 2 * SIZE, 3, 2 * SIZE, 2


def name() -> str:
    return dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)


def rand(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def close(result: Tensor, wanted: Tensor, limit: float = 1e-5) -> None:
    torch.testing.assert_close(result.cpu().float(), wanted.float(), rtol=limit, atol=limit)


def counts(source: int, target: int) -> list[int]:
    """How many rows a rank sends to each expert of another."""
    return [(source + 2 * target + expert) % 3 for expert in range(LOCAL)]


def sent(rank: int) -> list[int]:
    return [count for target in range(SIZE) for count in counts(rank, target)]


def received(rank: int) -> list[int]:
    return [count for source in range(SIZE) for count in counts(source, rank)]


def rows_of(rank: int) -> Tensor:
    return rand(sum(sent(rank)), INNER, seed=rank)


def matrices(rank: int) -> Tensor:
    return rand(LOCAL, INNER, 4, seed=50 + rank)


def piece(source: int, target: int, expert: int) -> Tensor:
    """The rows of a rank for one expert of another."""
    start = sum(sent(source)[: target * LOCAL + expert])
    return rows_of(source)[start : start + counts(source, target)[expert]]


@check
def rows_to_experts() -> None:
    wanted = [torch.cat([piece(source, RANK, expert) for source in range(SIZE)]) for expert in range(LOCAL)]
    products = torch.cat([part @ matrices(RANK)[expert] for expert, part in enumerate(wanted)])
    arguments = (rows_of(RANK).npu(), matrices(RANK).npu(), name(), SIZE, sent(RANK), received(RANK))
    mm_x, mm_weight = rand(3, 2, seed=1), rand(5, 2, seed=2)
    result, shared, moved = ops.npu_alltoallv_gmm(
        *arguments, mm_x=mm_x.npu(), mm_weight=mm_weight.npu(), trans_mm_weight=True, permute_out_flag=True
    )
    close(result, products)
    close(moved, torch.cat(wanted))
    close(shared, mm_x @ mm_weight.t())
    turned = matrices(RANK).transpose(1, 2).contiguous().npu()
    result, shared, moved = ops.npu_alltoallv_gmm(arguments[0], turned, *arguments[2:], trans_gmm_weight=True)
    close(result, products)
    assert shared.numel() == 0 and moved.numel() == 0
    half = ops.npu_alltoallv_gmm(arguments[0].bfloat16(), arguments[1].bfloat16(), *arguments[2:])[0]
    assert half.dtype == torch.bfloat16
    close(half, products, 0.1)


@check
def experts_to_rows_is_the_way_back() -> None:
    x = torch.cat([piece(source, RANK, expert) for expert in range(LOCAL) for source in range(SIZE)])
    result, shared = ops.npu_gmm_alltoallv(x.npu(), matrices(RANK).npu(), name(), SIZE, received(RANK), sent(RANK))
    wanted = [piece(RANK, target, e) @ matrices(target)[e] for target in range(SIZE) for e in range(LOCAL)]
    close(result, torch.cat(wanted))
    assert shared.numel() == 0


@check
def exchange_before_and_after_a_product() -> None:
    x1, x2, bias = rand(ROWS, INNER, seed=RANK), rand(INNER * SIZE, COLUMNS, seed=9), rand(COLUMNS, seed=3)
    mine = slice(RANK * ROWS // SIZE, (RANK + 1) * ROWS // SIZE)
    whole = torch.cat([rand(ROWS, INNER, seed=rank)[mine] for rank in range(SIZE)], 1)
    result, moved = ops.npu_all_to_all_matmul(x1.npu(), x2.npu(), name(), SIZE, bias.npu(), [-2, -1])
    close(moved, whole)
    close(result, whole @ x2 + bias)
    assert ops.npu_all_to_all_matmul(x1.npu(), x2.npu(), name(), SIZE, all2all_out_flag=False)[1].numel() == 0
    small = x2[:INNER]
    columns = slice(RANK * COLUMNS // SIZE, (RANK + 1) * COLUMNS // SIZE)
    wanted = torch.cat([(rand(ROWS, INNER, seed=rank) @ small + bias)[:, columns] for rank in range(SIZE)])
    close(ops.npu_matmul_all_to_all(x1.npu(), small.npu(), name(), SIZE, bias.npu()), wanted)


def quantised(rank: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """int8 factors, a scale for each row of the first and each column of the second."""
    generator = torch.Generator().manual_seed(rank)
    return (
        torch.randint(-128, 128, (ROWS, INNER), generator=generator, dtype=torch.int8),
        torch.randint(-128, 128, (INNER, COLUMNS), generator=generator, dtype=torch.int8),
        torch.rand(ROWS, generator=generator) / 100,
        torch.rand(COLUMNS, generator=generator) / 100,
    )


def dequantised(rank: int) -> tuple[Tensor, Tensor]:
    x1, x2, s1, s2 = quantised(rank)
    return x1.double() * s1[:, None], x2.double() * s2


@check
def quantised_products() -> None:
    x1, x2, s1, s2 = (tensor.npu() for tensor in quantised(RANK))
    bias = rand(COLUMNS, seed=4)
    scales = {"x1_scale": s1, "x2_scale": s2}
    whole = torch.cat([dequantised(rank)[0] for rank in range(SIZE)])
    result, gathered, top = ops.npu_all_gather_quant_mm(x1, x2, name(), SIZE, bias=bias.npu(), y_dtype=5, **scales)
    assert result.dtype == torch.float16 and gathered.dtype == torch.int8 and top.numel() == 0
    close(result, whole @ dequantised(RANK)[1] + bias, 1e-2)
    total = sum(a @ b for a, b in map(dequantised, range(SIZE)))
    close(ops.npu_quant_mm_reduce_scatter(x1, x2, name(), SIZE, **scales)[0], total.chunk(SIZE)[RANK])
    columns = slice(RANK * COLUMNS // SIZE, (RANK + 1) * COLUMNS // SIZE)
    wanted = torch.cat([(a @ b)[:, columns] for a, b in map(dequantised, range(SIZE))])
    close(ops.npu_quant_matmul_all_to_all(x1, x2, name(), SIZE, x1_quant_mode=3, x2_quant_mode=2, **scales), wanted)


@check
def exchange_then_quantise() -> None:
    _, _, _, s2 = quantised(RANK)
    x1 = rand(ROWS, INNER, seed=RANK).bfloat16()
    generator = torch.Generator().manual_seed(7)
    x2 = torch.randint(-128, 128, (INNER * SIZE, COLUMNS), generator=generator, dtype=torch.int8)
    mine = slice(RANK * ROWS // SIZE, (RANK + 1) * ROWS // SIZE)
    whole = torch.cat([rand(ROWS, INNER, seed=rank).bfloat16()[mine] for rank in range(SIZE)], 1)
    result, moved = ops.npu_all_to_all_quant_matmul(
        x1.npu(), x2.npu(), name(), SIZE, x2_scale=s2.npu(), x1_quant_mode=7
    )
    close(moved, whole, 0)
    step = whole.double().abs().amax(1, keepdim=True) / 127
    close(result, torch.round(whole.double() / step) * step @ (x2.double() * s2), 1e-4)


@check
def bad_arguments() -> None:
    x1, x2, s1, s2 = (tensor.npu() for tensor in quantised(RANK))
    plain = x1.float()
    refused(
        "all2all_axes must be",
        lambda: ops.npu_all_to_all_matmul(plain, x2.float(), name(), SIZE, None, [0, 1]),
        line="ERR01",
    )
    refused("cannot be multiplied", lambda: ops.npu_matmul_all_to_all(plain, plain, name(), SIZE), line="ERR01")
    weights = matrices(RANK).npu()
    refused("send_counts must be", lambda: ops.npu_alltoallv_gmm(plain, weights, name(), SIZE, [1], [1]), line="ERR01")
    cells = [1] * (SIZE * LOCAL)
    refused(
        "rows that send_counts",
        lambda: ops.npu_gmm_alltoallv(plain[1:], weights, name(), SIZE, cells, cells),
        line="ERR01",
    )
    refused(
        "send_counts_tensor",
        lambda: ops.npu_alltoallv_gmm(plain, weights, name(), SIZE, cells, cells, send_counts_tensor=x1),
        line="ERR01007",
    )
    refused("x2_scale is needed", lambda: ops.npu_all_gather_quant_mm(x1, x2, name(), SIZE), line="ERR01")
    refused(
        "amax_output",
        lambda: ops.npu_quant_mm_reduce_scatter(x1, x2, name(), SIZE, x2_scale=s2, amax_output=True),
        line="ERR01007",
    )
    refused(
        "x1_quant_mode 5",
        lambda: ops.npu_quant_matmul_all_to_all(x1, x2, name(), SIZE, None, s1, s2, x1_quant_mode=5),
        line="ERR01007",
    )
    refused(
        "x1 of torch.int8", lambda: ops.npu_all_to_all_quant_matmul(x1, x2, name(), SIZE, x2_scale=s2), line="ERR01007"
    )
    refused(
        "no derivative",
        lambda: ops.npu_matmul_all_to_all(plain.requires_grad_(), x2.float(), name(), SIZE),
        line="ERR01007",
    )


if __name__ == "__main__":
    main()
