"""Experts spread over ranks: dispatch, experts, combine against the weighted sum of all experts, computed by each rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main, refused
from torch import Tensor

TOKENS, WIDTH, CHOICES, LOCAL = 5, 6, 3, 4
EXPERTS = LOCAL * SIZE
ops = torch.ops.npu


def name() -> str:
    return dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)


def rand(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(rank: int, count: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    """x, the experts of each token (all different), their weights."""
    generator = torch.Generator().manual_seed(100 + rank)
    ids = torch.stack([torch.randperm(EXPERTS, generator=generator)[:CHOICES] for _ in range(count)]).to(torch.int32)
    return rand(count, WIDTH, seed=rank), ids, torch.rand(count, CHOICES, generator=generator)


def matrices() -> Tensor:
    return rand(EXPERTS, WIDTH, WIDTH, seed=77)


def plain(rank: int, mask: Tensor | None = None, count: int = TOKENS) -> Tensor:
    """The weighted sum of experts, token by token."""
    x, ids, weights = tokens(rank, count)
    out, experts = torch.zeros(count, WIDTH), matrices()
    for t in range(count):
        for c in range(CHOICES):
            if mask is None or mask.reshape(count, -1).expand(count, CHOICES)[t, c]:
                out[t] += weights[t, c] * (x[t] @ experts[ids[t, c]])
    return out


def expert_products(rows: Tensor, counts: list[int]) -> Tensor:
    """This rank's experts, each for its rows; what lies after them is noise that nobody may see."""
    own, start = matrices()[RANK * LOCAL :], 0
    out = torch.full_like(rows, 1e3)
    for expert, count in enumerate(counts):
        out[start : start + count] = rows[start : start + count] @ own[expert].to(rows.dtype)
        start += count
    return out


def close(result: Tensor, wanted: Tensor, limit: float = 1e-5) -> None:
    torch.testing.assert_close(result.cpu().float(), wanted.float(), rtol=limit, atol=limit)


def common() -> tuple[str, int, int, int]:
    return name(), SIZE, RANK, EXPERTS


def arrivals(expert: int) -> list[tuple[int, int, int]]:
    """Rank, token and choice of all pairs of an expert, in the order in which they arrive."""
    return [
        (rank, t, c)
        for rank in range(SIZE)
        for t in range(TOKENS)
        for c in range(CHOICES)
        if tokens(rank)[1][t, c] == expert
    ]


@check
def dispatch_brings_rows_by_expert_and_rank() -> None:
    x, ids, weights = tokens(RANK)
    arguments = (x.npu(), ids.npu(), *common())
    rows, scales, assist, counts, sums, _, carried = ops.npu_moe_distribute_dispatch_v2(
        *arguments, expert_scales=weights.npu()
    )
    capacity = TOKENS * SIZE * min(LOCAL, CHOICES)
    assert rows.shape == (capacity, WIDTH) and scales.numel() == 0 and assist.shape == (capacity * 128,)
    wanted = [arrival for expert in range(LOCAL) for arrival in arrivals(RANK * LOCAL + expert)]
    for row, (rank, t, c) in enumerate(wanted):
        close(rows[row], tokens(rank)[0][t])
        close(carried[row], tokens(rank)[2][t, c])
        assert assist.view(capacity, 128)[row, :4].tolist() == [rank, t, c, 1]
    assert not rows[len(wanted) :].any()
    each = [len(arrivals(RANK * LOCAL + expert)) for expert in range(LOCAL)]
    assert counts.tolist() == each and counts.dtype == torch.int64 and sums.dtype == torch.int32
    cells = [sum(a[0] == rank for a in arrivals(RANK * LOCAL + e)) for e in range(LOCAL) for rank in range(SIZE)]
    assert sums.tolist() == torch.tensor(cells).cumsum(0).tolist()
    again = ops.npu_moe_distribute_dispatch(*arguments, expert_token_nums_type=0)
    assert again[3].tolist() == torch.tensor(each).cumsum(0).tolist()
    flat = ids.flatten().tolist()
    assert again[2].tolist() == [flat[:at].count(arrival) for at, arrival in enumerate(flat)]


@check
def round_trip_is_the_weighted_sum() -> None:
    x, ids, weights = tokens(RANK)
    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        arguments = (x.to(dtype).npu(), ids.npu())
        rows, _, index, counts, sums, tp, _ = ops.npu_moe_distribute_dispatch(*arguments, *common())
        products = expert_products(rows.cpu(), counts.tolist()).npu()
        out = ops.npu_moe_distribute_combine(
            products, ids.npu(), index, sums, weights.npu(), *common(), tp_send_counts=tp
        )
        assert out.dtype == dtype
        close(out, plain(RANK), limit)


@check
def masks_and_ranks_of_different_sizes() -> None:
    count = TOKENS - RANK  # the second rank has fewer; global_bs speaks of the most
    x, ids, weights = tokens(RANK, count)
    for mask in (
        torch.arange(count) % 2 == 0,
        torch.rand(count, CHOICES, generator=torch.Generator().manual_seed(3)) > 0.5,
    ):
        options = {"x_active_mask": mask.npu(), "global_bs": TOKENS * SIZE, "tp_world_size": 1, "group_tp": name()}
        rows, _, assist, counts, sums, _, scales = ops.npu_moe_distribute_dispatch_v2(
            x.npu(), ids.npu(), *common(), expert_scales=weights.npu(), comm_alg="fullmesh", **options
        )
        products = expert_products(rows.cpu(), counts.tolist()).npu()
        shared = rand(count, WIDTH, seed=9)
        out = ops.npu_moe_distribute_combine_v2(
            products,
            ids.npu(),
            assist,
            sums,
            weights.npu(),
            *common(),
            expand_scales=scales,
            shared_expert_x=shared.npu(),
            **options,
        )
        close(out, plain(RANK, mask, count) + shared)


@check
def a_rank_without_tokens_still_serves_its_experts() -> None:
    count = TOKENS if RANK == 0 else 0
    x, ids, weights = (tensor[:count] for tensor in tokens(RANK))
    options = {"global_bs": TOKENS * SIZE}
    rows, _, index, counts, sums, _, _ = ops.npu_moe_distribute_dispatch(x.npu(), ids.npu(), *common(), **options)
    assert sum(counts.tolist()) == sum(len([a for a in arrivals(RANK * LOCAL + e) if a[0] == 0]) for e in range(LOCAL))
    products = expert_products(rows.cpu(), counts.tolist()).npu()
    out = ops.npu_moe_distribute_combine(products, ids.npu(), index, sums, weights.npu(), *common(), **options)
    close(out, plain(RANK)[:count])


@check
def quantised_rows() -> None:
    x, ids, _ = tokens(RANK)
    factors = rand(EXPERTS, WIDTH, seed=5).abs() + 0.5
    rows, scales, *_ = ops.npu_moe_distribute_dispatch_v2(
        x.npu(), ids.npu(), *common(), quant_mode=2, scales=factors.npu()
    )
    assert rows.dtype == torch.int8 and scales.shape == rows.shape[:1]
    row = 0
    for expert in range(RANK * LOCAL, RANK * LOCAL + LOCAL):
        for rank, t, _ in arrivals(expert):
            value = tokens(rank)[0][t] * factors[expert]
            close(scales[row], value.abs().max() / 127)
            close(rows[row], torch.round(value / (value.abs().max() / 127)))
            row += 1


@check
def special_experts() -> None:
    """Two zero experts and one that copies, behind the real ones."""
    x, ids, weights = tokens(RANK)
    ids[:, 0] = EXPERTS + torch.arange(TOKENS, dtype=torch.int32) % 3
    special = {"zero_expert_num": 2, "copy_expert_num": 1}
    rows, _, assist, counts, sums, _, _ = ops.npu_moe_distribute_dispatch_v2(x.npu(), ids.npu(), *common(), **special)
    products = expert_products(rows.cpu(), counts.tolist()).npu()
    out = ops.npu_moe_distribute_combine_v2(
        products, ids.npu(), assist, sums, weights.npu(), *common(), ori_x=x.npu(), **special
    )
    wanted, experts = torch.zeros(TOKENS, WIDTH), matrices()
    for t in range(TOKENS):
        for c in range(CHOICES):
            expert = int(ids[t, c])
            answer = x[t] @ experts[expert] if expert < EXPERTS else x[t] * (expert == EXPERTS + 2)
            wanted[t] += weights[t, c] * answer
    close(out, wanted)


@check
def two_phases_are_the_whole() -> None:
    x, ids, weights = tokens(RANK)
    mask = (torch.arange(TOKENS) != 1).npu()
    arguments = (x.npu(), ids.npu(), *common())
    for mode in (0, 2):
        whole = ops.npu_moe_distribute_dispatch_v2(
            *arguments, quant_mode=mode, x_active_mask=mask, expert_token_nums_type=0
        )
        y, index, info = ops.npu_moe_distribute_dispatch_setup(*arguments, quant_mode=mode, x_active_mask=mask)
        received = ops.npu_moe_distribute_dispatch_teardown(
            arguments[0], y, arguments[1], info, *common(), quant_mode=mode, expert_token_nums_type=0
        )
        for part, expected in zip(received, whole[:4], strict=True):
            assert torch.equal(part, expected)
    y, index, info = ops.npu_moe_distribute_dispatch_setup(*arguments)
    rows, _, assist, counts = ops.npu_moe_distribute_dispatch_teardown(arguments[0], y, arguments[1], info, *common())
    products = expert_products(rows.cpu(), counts.tolist()).npu()
    shared = rand(TOKENS, WIDTH, seed=9)
    back, info = ops.npu_moe_distribute_combine_setup(products, ids.npu(), assist, *common())
    out = ops.npu_moe_distribute_combine_teardown(
        products, back, ids.npu(), index, weights.npu(), info, *common(), shared_expert_x=shared.npu()
    )
    close(out, plain(RANK) + shared)
    refused(
        "is not what the setup",
        lambda: ops.npu_moe_distribute_dispatch_teardown(arguments[0], rows, arguments[1], info, *common()),
        line="ERR01",
    )


@check
def combine_with_residual_and_norm() -> None:
    x, ids, weights = tokens(RANK)
    rows, _, index, counts, sums, _, _ = ops.npu_moe_distribute_dispatch(x.npu(), ids.npu(), *common())
    products = expert_products(rows.cpu(), counts.tolist()).npu()
    residual, gamma = rand(TOKENS, 1, WIDTH, seed=8), rand(WIDTH, seed=4)
    y, rstd, total = ops.npu_moe_distribute_combine_add_rms_norm(
        products, ids.npu(), index, sums, weights.npu(), residual.npu(), gamma.npu(), *common(), norm_eps=1e-3
    )
    wanted = plain(RANK)[:, None] + residual
    inverse = 1 / (wanted.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    close(total, wanted)
    close(rstd, inverse)
    close(y, wanted * inverse * gamma)


@check
def compiled_programs_keep_both_ways() -> None:
    x, ids, weights = tokens(RANK)
    where = common()

    def layer(x: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        rows, _, index, _, sums, _, _ = ops.npu_moe_distribute_dispatch(x, ids, *where)
        return ops.npu_moe_distribute_combine(rows * 2, ids, index, sums, weights, *where)

    result = torch.compile(layer, backend="aot_eager")(x.npu(), ids.npu(), weights.npu())
    close(result, 2 * x * weights.sum(1, keepdim=True))


@check
def barrier() -> None:
    x = torch.arange(3).npu()
    assert ops._npu_distribute_barrier(x, name(), SIZE).tolist() == [0, 1, 2]
    refused("time_out", lambda: ops._npu_distribute_barrier(x, name(), SIZE, time_out=x), line="ERR01007")


@check
def bad_arguments() -> None:
    x, ids, _ = (tensor.npu() for tensor in tokens(RANK))
    group, size, rank, experts = common()

    def dispatch(ids: Tensor = ids, rank: int = rank, experts: int = experts, **options: object) -> object:
        return ops.npu_moe_distribute_dispatch_v2(x, ids, group, size, rank, experts, **options)

    refused("ep_rank_id", lambda: dispatch(rank=RANK + 1), line="ERR01001")
    refused("cannot be shared", lambda: dispatch(experts=EXPERTS + 1), line="ERR01")
    refused("expert_ids must be", lambda: dispatch(ids[:2]), line="ERR01")
    refused("global_bs 7", lambda: dispatch(global_bs=7), line="ERR01")
    refused("shared_expert_rank_num 1", lambda: dispatch(shared_expert_rank_num=1), line="ERR01007")
    refused("tp_world_size 2", lambda: dispatch(tp_world_size=2), line="ERR01007")
    refused("quant_mode 1", lambda: dispatch(quant_mode=1), line="ERR01007")
    refused("const_expert_num", lambda: dispatch(const_expert_num=1), line="ERR01007")
    refused("x_active_mask must be", lambda: dispatch(x_active_mask=torch.ones(2).npu()), line="ERR01")
    rows, _, assist, _, sums, _, _ = dispatch()
    refused(
        "rows that dispatch gave",
        lambda: ops.npu_moe_distribute_combine_v2(rows[1:], ids, assist, sums, ids.float(), group, size, rank, experts),
        line="ERR01",
    )


if __name__ == "__main__":
    main()
