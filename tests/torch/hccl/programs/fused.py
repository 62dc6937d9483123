"""Products with a collective, against the product of all ranks' factors computed by each."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main, refused
from torch import Tensor

ROWS, INNER, COLUMNS = 2 * SIZE, 3, 5


def factors(rank: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rank)
    return (
        torch.randn(ROWS, INNER, generator=generator).to(dtype),
        torch.randn(INNER, COLUMNS, generator=generator).to(dtype),
    )


def name() -> str:
    return dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)


def close(result: Tensor, wanted: Tensor, limit: float = 1e-5) -> None:
    torch.testing.assert_close(result.cpu(), wanted, rtol=limit, atol=limit)


@check
def mm_all_reduce() -> None:
    x, w = (factor.npu() for factor in factors(RANK))
    total = sum(a @ b for a, b in map(factors, range(SIZE)))
    close(torch.ops.npu.npu_mm_all_reduce_base(x, w, name()), total)
    bias, x3 = torch.ones(COLUMNS), torch.full((ROWS, COLUMNS), 2.0)
    result = torch.ops.npu.npu_mm_all_reduce_base(x, w, name(), bias=bias.npu(), x3=x3.npu(), comm_mode="aiv")
    close(result, total + 3 * SIZE)
    half = [factor.npu() for factor in factors(RANK, torch.bfloat16)]
    close(torch.ops.npu.npu_mm_all_reduce_base(*half, name()).float(), total, 0.1)


@check
def all_gather_mm() -> None:
    x, w = (factor.npu() for factor in factors(RANK))
    whole = torch.cat([factors(rank)[0] for rank in range(SIZE)])
    result, gathered = torch.ops.npu.npu_all_gather_base_mm(x, w, name(), SIZE)
    close(result, whole @ w.cpu())
    close(gathered, whole)
    assert torch.ops.npu.npu_all_gather_base_mm(x, w, name(), SIZE, gather_output=False)[1].numel() == 0
    weights = torch.cat([factors(rank)[1] for rank in range(SIZE)])
    wide = torch.ones(4, INNER * SIZE)
    close(torch.ops.npu.npu_all_gather_base_mm(wide.npu(), w, name(), SIZE, gather_index=1)[0], wide @ weights)


@check
def mm_reduce_scatter() -> None:
    x, w = (factor.npu() for factor in factors(RANK))
    total = sum(a @ b for a, b in map(factors, range(SIZE)))
    close(torch.ops.npu.npu_mm_reduce_scatter_base(x, w, name(), SIZE), total.chunk(SIZE)[RANK])


@check
def compiled_programs_keep_the_collective() -> None:
    x, w = (factor.npu() for factor in factors(RANK))
    step = torch.compile(
        lambda a, b: torch.ops.npu.npu_mm_all_reduce_base(a, b, "hccl_group_0") + 1, backend="aot_eager"
    )
    assert name() == "hccl_group_0"
    close(step(x, w), sum(a @ b for a, b in map(factors, range(SIZE))) + 1)


@check
def bad_arguments() -> None:
    x, w = (factor.npu() for factor in factors(RANK))
    operators = torch.ops.npu
    refused(
        "no group with the communicator 'nobody'",
        lambda: operators.npu_mm_all_reduce_base(x, w, "nobody"),
        line="ERR01",
    )
    refused("world_size is 9", lambda: operators.npu_mm_reduce_scatter_base(x, w, name(), 9), line="ERR01001")
    refused(
        "reduce_op must be 'sum'", lambda: operators.npu_mm_all_reduce_base(x, w, name(), reduce_op="max"), line="ERR01"
    )
    refused("comm_turn", lambda: operators.npu_mm_all_reduce_base(x, w, name(), comm_turn=2), line="ERR01")
    refused("dequant_scale", lambda: operators.npu_mm_all_reduce_base(x, w, name(), dequant_scale=w), line="ERR01007")
    refused("no derivative", lambda: operators.npu_mm_all_reduce_base(x.requires_grad_(), w, name()), line="ERR01007")


if __name__ == "__main__":
    main()
