"""Every collective that moves or reduces values, on each rank."""

from __future__ import annotations

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main, refused
from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven

OP = dist.ReduceOp
ALL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
       torch.bool, torch.float8_e4m3fn, torch.complex64)  # fmt: skip
REDUCED = (
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def values(rank: int, dtype: torch.dtype = torch.float32, count: int = 6) -> torch.Tensor:
    """What a rank brings, on the CPU."""
    return (torch.arange(count) % 3 + rank + 1).to(dtype)


def same(result: torch.Tensor, wanted: torch.Tensor) -> None:
    assert result.device.type == "npu", result.device
    result = result.cpu()
    assert result.dtype == wanted.dtype and result.shape == wanted.shape, (result, wanted)
    assert bytes(result.contiguous().view(torch.uint8).flatten().tolist()) == bytes(
        wanted.contiguous().view(torch.uint8).flatten().tolist()
    ), (result, wanted)


def reduced(op: object, dtype: torch.dtype) -> torch.Tensor:
    rows = torch.stack([values(rank, dtype) for rank in range(SIZE)])
    if op == OP.SUM:
        return rows.sum(0, dtype=dtype)
    if op == OP.AVG:
        total = rows.sum(0, dtype=dtype)
        return total / SIZE if dtype.is_floating_point else total.div(SIZE, rounding_mode="trunc")
    return {OP.PRODUCT: lambda: rows.prod(0, dtype=dtype), OP.MIN: lambda: rows.amin(0), OP.MAX: lambda: rows.amax(0)}[
        op
    ]()


@check
def all_reduce_dtypes_and_operations() -> None:
    for dtype in REDUCED:
        for op in (OP.SUM, OP.PRODUCT, OP.MIN, OP.MAX, OP.AVG):
            x = values(RANK, dtype).npu()
            dist.all_reduce(x, op)
            if (
                op == OP.PRODUCT and dtype in (torch.float16, torch.bfloat16) and SIZE > 2
            ):  # Gloo rounds after each rank
                torch.testing.assert_close(x.cpu(), reduced(op, dtype), rtol=0.05, atol=0)
            else:
                same(x, reduced(op, dtype))


@check
def all_reduce_of_bool() -> None:
    mine = torch.tensor([True, RANK == 0, False]).npu()
    for op, wanted in ((OP.SUM, [True, True, False]), (OP.MAX, [True, True, False]), (OP.PRODUCT, [True, False, False]), (OP.MIN, [True, False, False])):  # fmt: skip
        x = mine.clone()
        dist.all_reduce(x, op)
        same(x, torch.tensor(wanted))


@check
def premul_sum() -> None:
    for factor in (0.5, torch.tensor([0.5]).npu()):
        x = values(RANK).npu()
        dist.all_reduce(x, dist._make_nccl_premul_sum(factor))
        same(x, reduced(OP.SUM, torch.float32) * 0.5)
    out = torch.empty(6).npu()
    dist.reduce_scatter(out, [values(RANK).npu() for _ in range(SIZE)], dist._make_nccl_premul_sum(0.25))
    same(out, reduced(OP.SUM, torch.float32) * 0.25)
    refused(
        "PREMUL_SUM, which is for floating types",
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32).npu(), dist._make_nccl_premul_sum(2.0)),
        TypeError,
    )


@check
def refused_operations_and_dtypes() -> None:
    for op in ("BAND", "BOR", "BXOR"):
        x = torch.ones(2, dtype=torch.int32).npu()
        refused(
            f"Cannot use ReduceOp.{op} with HCCL", lambda x=x, op=op: dist.all_reduce(x, getattr(OP, op)), ValueError
        )
    refused(
        "HCCL allreduce: Unsupported data type Float8_e4m3fn",
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn).npu()),
        TypeError,
    )
    refused("Unsupported data type Bool for ReduceOp.AVG", lambda: dist.all_reduce(torch.ones(2).bool().npu(), OP.AVG))


@check
def refused_tensors() -> None:
    refused("Tensors must be contiguous", lambda: dist.all_reduce(torch.ones(4, 4).npu().t()[1:]))
    refused("Tensors must be contiguous", lambda: dist.broadcast(torch.ones(4, 4).npu()[:, 1], 0))
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    refused("Tensors must be NPU and dense", lambda: backend.allreduce([torch.ones(2)]))
    refused("takes one tensor per device", lambda: backend.broadcast([torch.ones(2).npu(), torch.ones(2).npu()]))
    refused("does not support recvAnysource", lambda: dist.recv(torch.ones(2).npu()))
    for call in (dist.broadcast, dist.reduce):
        refused(f"rank {SIZE + 3} does not exist", lambda call=call: call(torch.ones(2).npu(), SIZE + 3), ValueError)


@check
def a_wait_that_is_too_short() -> None:
    x = torch.ones(2).npu()
    if RANK:
        time.sleep(1.5)
        dist.all_reduce(x)
    else:
        work = dist.all_reduce(x, async_op=True)
        refused("All ranks must call the same collectives", lambda: work.wait(timedelta(milliseconds=300)))
        work.wait()
    assert x.tolist() == [SIZE, SIZE]


@check
def reduce_leaves_other_ranks_alone() -> None:
    for dtype in (torch.float32, torch.int16, torch.bfloat16):
        for op in (OP.SUM, OP.AVG, OP.MAX):
            x = values(RANK, dtype).npu()
            dist.reduce(x, 1, op)
            same(x, reduced(op, dtype) if RANK == 1 else values(RANK, dtype))


@check
def broadcast_any_dtype() -> None:
    for dtype in ALL:
        for root in range(SIZE):
            x = values(RANK, dtype).npu()
            dist.broadcast(x, root)
            same(x, values(root, dtype))


@check
def channels_last_and_offsets() -> None:
    x = torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last)
    y = (x * (RANK + 1)).npu()
    assert not y.is_contiguous()
    dist.all_reduce(y)
    same(y, x * (SIZE * (SIZE + 1) // 2))
    whole = torch.zeros(10).npu()
    part = whole[3:6]
    part.fill_(RANK + 1)
    dist.all_reduce(part)
    same(whole, torch.tensor([0.0] * 3 + [SIZE * (SIZE + 1) / 2] * 3 + [0.0] * 4))


@check
def all_gather_even_and_uneven() -> None:
    for dtype in (torch.float32, torch.int16, torch.bool):
        out = [torch.empty(6, dtype=dtype).npu() for _ in range(SIZE)]
        dist.all_gather(out, values(RANK, dtype).npu())
        for rank in range(SIZE):
            same(out[rank], values(rank, dtype))
    out = [torch.empty(rank + 1).npu() for rank in range(SIZE)]
    dist.all_gather(out, torch.full((RANK + 1,), float(RANK)).npu())
    for rank in range(SIZE):
        same(out[rank], torch.full((rank + 1,), float(rank)))
    whole = torch.empty(SIZE, 6).npu()
    dist.all_gather_into_tensor(whole, values(RANK).npu())
    same(whole, torch.stack([values(rank) for rank in range(SIZE)]))


@check
def gather_and_scatter() -> None:
    lists = [torch.empty(6).npu() for _ in range(SIZE)] if RANK == 1 else None
    dist.gather(values(RANK).npu(), lists, dst=1)
    if RANK == 1:
        for rank in range(SIZE):
            same(lists[rank], values(rank))
    x = torch.empty(6, dtype=torch.int32).npu()
    dist.scatter(x, [values(10 * rank, torch.int32).npu() for rank in range(SIZE)] if RANK == 0 else None, src=0)
    same(x, values(10 * RANK, torch.int32))


@check
def reduce_scatter_all_forms() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.int64, torch.bool):
        rows = [torch.stack([values(7 * rank + part, dtype) for part in range(SIZE)]) for rank in range(SIZE)]
        for op in (OP.SUM, OP.MAX):
            stack = torch.stack([row[RANK] for row in rows])
            wanted = stack.amax(0) if op == OP.MAX or dtype == torch.bool else stack.sum(0, dtype=dtype)
            out = torch.empty(6, dtype=dtype).npu()
            dist.reduce_scatter(out, list(rows[RANK].npu()), op)
            same(out, wanted)
            out = torch.empty(6, dtype=dtype).npu()
            dist.reduce_scatter_tensor(out, rows[RANK].npu(), op)
            same(out, wanted)


@check
def uneven_tensors() -> None:
    splits = [rank + 1 for rank in range(SIZE)]
    whole = torch.arange(sum(splits) * 2.0).reshape(-1, 2)
    out = torch.empty(RANK + 1, 2).npu()
    reduce_scatter_tensor_uneven(out, (whole * (RANK + 1)).npu(), splits)
    same(out, (whole * (SIZE * (SIZE + 1) // 2)).split(splits)[RANK])
    work = reduce_scatter_tensor_uneven(out, (whole * (RANK + 1)).npu(), splits, OP.AVG, async_op=True)
    work.wait()
    same(out, (whole * (SIZE + 1) / 2).split(splits)[RANK])
    gathered = torch.empty_like(whole).npu()
    all_gather_into_tensor_uneven(gathered, whole.split(splits)[RANK].npu(), splits)
    same(gathered, whole)
    refused(
        "Split sizes doesn't match total dim 0 size",
        lambda: all_gather_into_tensor_uneven(gathered, whole[:1].npu(), [9] * SIZE),
        line="",
    )
    refused(
        "Number of tensor splits not equal to group size",
        lambda: reduce_scatter_tensor_uneven(out, whole.npu(), [len(whole)]),
        line="",
    )


@check
def all_to_all() -> None:
    out = [torch.empty(rank + 1).npu() for rank in range(SIZE)]
    dist.all_to_all(out, [torch.full((RANK + 1,), float(10 * RANK + to)).npu() for to in range(SIZE)])
    for rank in range(SIZE):
        same(out[rank], torch.full((rank + 1,), float(10 * rank + RANK)))
    whole = torch.empty(SIZE, 3, dtype=torch.int64).npu()
    dist.all_to_all_single(whole, (torch.arange(SIZE * 3).reshape(SIZE, 3) + 100 * RANK).npu())
    same(whole, torch.stack([torch.arange(SIZE * 3).reshape(SIZE, 3)[RANK] + 100 * rank for rank in range(SIZE)]))
    sent = [to + 1 for to in range(SIZE)]
    out = torch.empty(SIZE * (RANK + 1)).npu()
    dist.all_to_all_single(out, torch.full((sum(sent),), float(RANK)).npu(), [RANK + 1] * SIZE, sent)
    same(out, torch.cat([torch.full((RANK + 1,), float(rank)) for rank in range(SIZE)]))


@check
def send_receive_and_batches() -> None:
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    x = torch.empty(6, dtype=torch.bfloat16).npu()
    work = dist.isend(values(RANK, torch.bfloat16).npu(), right)
    dist.recv(x, left)
    work.wait()
    same(x, values(left, torch.bfloat16))
    y = torch.empty(3).npu()
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, torch.full((3,), float(RANK)).npu(), right), dist.P2POp(dist.irecv, y, left)]
    ):
        work.wait()
    same(y, torch.full((3,), float(left)))
    refused("has no peer", lambda: dist.group.WORLD._get_backend(x.device).send([x], SIZE + 3, 0), ValueError)


@check
def forgotten_and_polled_sends() -> None:
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for number in range(3):
        dist.isend(torch.full((50_000,), float(number)).npu(), right)  # nobody keeps the work
    for number in range(3):
        x = torch.empty(50_000).npu()
        work = dist.irecv(x, left)
        deadline = time.monotonic() + 30
        while not work.is_completed() and time.monotonic() < deadline:
            time.sleep(0.001)
        work.wait()
        same(x, torch.full((50_000,), float(number)))
    y = torch.empty(2).npu()
    future = dist.irecv(y, left).get_future()
    dist.isend(torch.full((2,), 7.0).npu(), right).wait()
    same(future.wait()[0], torch.full((2,), 7.0))


@check
def coalesced() -> None:
    device = torch.device("npu", RANK)
    xs = [torch.full((4,), float(RANK + n), device=device) for n in range(3)]
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    for n, x in enumerate(xs):
        same(x, torch.full((4,), float(sum(rank + n for rank in range(SIZE)))))
    outs = [torch.empty(SIZE * 2, device=device) for _ in range(2)]
    with dist._coalescing_manager(device=device):
        for n, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((2,), float(RANK + n), device=device))
    for n, out in enumerate(outs):
        same(out, torch.tensor([float(rank + n) for rank in range(SIZE) for _ in range(2)]))
    outs = [torch.empty(2, device=device) for _ in range(2)]
    with dist._coalescing_manager(device=device):
        for n, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, torch.full((2 * SIZE,), float(RANK + n), device=device))
    for n, out in enumerate(outs):
        same(out, torch.full((2,), float(sum(rank + n for rank in range(SIZE)))))


@check
def futures_and_forgotten_works() -> None:
    x = values(RANK).npu()
    result = dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value()[0] * 2).wait()
    same(result, reduced(OP.SUM, torch.float32) * 2)
    for _ in range(20):  # nobody keeps the tensors, nobody waits
        dist.all_reduce(torch.ones(100_000).npu(), async_op=True)
    work = dist.all_reduce(x, OP.AVG, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success()
    same(work.result()[0], reduced(OP.SUM, torch.float32))


@check
def empty_tensors_and_barriers() -> None:
    x = torch.empty(0).npu()
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    out = [torch.empty(0).npu() for _ in range(SIZE)]
    dist.all_gather(out, x)
    dist.barrier()
    dist.barrier(device_ids=[RANK])
    dist.barrier(async_op=True).wait()


@check
def objects() -> None:
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK, "text": "a" * (RANK * 1000)})
    assert [entry["rank"] for entry in gathered] == list(range(SIZE)) and len(gathered[1]["text"]) == 1000
    words = ["first", 2] if RANK == 0 else [None, None]
    dist.broadcast_object_list(words, 0)
    assert words == ["first", 2]
    gathered = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK, gathered, 0)
    assert gathered == (list(range(SIZE)) if RANK == 0 else None)
    entry = [None]
    dist.scatter_object_list(entry, list(range(SIZE)) if RANK == 0 else None, 0)
    assert entry == [RANK]


@check
def several_groups() -> None:
    alone = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
    pair = dist.new_group(list(range(SIZE)), backend="hccl")
    x = values(RANK).npu()
    dist.all_reduce(x, group=alone)
    same(x, values(RANK))
    dist.all_reduce(x, group=pair)
    same(x, reduced(OP.SUM, torch.float32))
    first, second = (group._get_backend(x.device) for group in (dist.group.WORLD, pair))
    assert first.get_hccl_comm_name(RANK) != second.get_hccl_comm_name(RANK)
    assert second._get_sequence_number_for_group() == 1
    dist.destroy_process_group(pair)


@check
def internal_formats() -> None:
    import torch_npu

    torch_npu.npu.config.allow_internal_format = True
    base = torch.arange(2 * 20 * 3 * 3.0).reshape(2, 20, 3, 3)
    x = torch_npu.npu_format_cast((base * (RANK + 1)).npu(), 3)
    assert torch_npu.get_npu_format(x) == 3
    dist.all_reduce(x)
    same(torch_npu.npu_format_cast(x, 0), base * (SIZE * (SIZE + 1) // 2))
    torch_npu.npu.config.allow_internal_format = False


@check
def repaired_group() -> None:
    backend = dist.group.WORLD._get_backend(torch.device("npu"))
    dist.barrier()
    backend.abort_hccl_comm()
    refused("has ended: it was aborted", lambda: dist.all_reduce(torch.ones(2).npu()), dist.DistBackendError)
    dist.reinit_process_group()
    x = values(RANK).npu()
    dist.all_reduce(x)
    same(x, reduced(OP.SUM, torch.float32))


if __name__ == "__main__":
    main()
