"""Ranks that do not do the same: both get an error that tells the difference, and other groups go on. Each way has a group of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from checks import RANK, check, main
from torch_npu.distributed import all_gather_into_tensor_uneven, reduce_scatter_tensor_uneven

OP = dist.ReduceOp
SECONDS = 20  # far below the timeout of the groups


def ones(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(count, dtype=dtype).npu()


def told(
    first: Callable[[dist.ProcessGroup], object], second: Callable[[dist.ProcessGroup], object], *words: str
) -> None:
    """Rank 0 does the first, rank 1 the second: both are told the words, soon, and the group is over."""
    group = dist.new_group([0, 1])
    start = time.monotonic()
    try:
        (first, second)[RANK](group)
        dist.barrier(group=group)  # a send may be over before the other end has looked at it
    except dist.DistBackendError as error:
        text = str(error)
    else:
        raise AssertionError("nothing was raised")
    assert time.monotonic() - start < SECONDS, f"{time.monotonic() - start} s"
    assert "match: rank " in text and "ERR02" in text, text
    assert all(word in text for word in words), (words, text)
    x = ones(2)
    dist.all_reduce(x)  # of all: the others' groups are whole
    assert x.tolist() == [2, 2]


@check
def sizes_of_an_all_reduce() -> None:
    told(lambda group: dist.all_reduce(ones(4), group=group), lambda group: dist.all_reduce(ones(900), group=group),
         "allreduce of 4 Float, SUM", "allreduce of 900 Float, SUM")  # fmt: skip


@check
def operations() -> None:
    told(
        lambda group: dist.all_reduce(ones(4), OP.MAX, group=group),
        lambda group: dist.all_reduce(ones(4), group=group),
        "MAX",
        "SUM",
    )
    told(lambda group: dist.reduce_scatter(ones(2), [ones(2)] * 2, OP.MAX, group=group),
         lambda group: dist.reduce_scatter(ones(2), [ones(2)] * 2, group=group), "MAX", "SUM")  # fmt: skip


@check
def dtypes_of_as_many_bytes() -> None:
    for call in (dist.all_reduce, lambda x, group: dist.broadcast(x, 0, group=group)):
        told(lambda group, call=call: call(ones(4), group=group),
             lambda group, call=call: call(ones(4, torch.int32), group=group), "4 Float", "4 Int")  # fmt: skip


@check
def roots_and_kinds() -> None:
    told(lambda group: dist.broadcast(ones(4), 0, group=group), lambda group: dist.broadcast(ones(4), 1, group=group),
         "from rank 0", "from rank 1")  # fmt: skip
    told(
        lambda group: dist.barrier(group=group),
        lambda group: dist.all_reduce(ones(3), group=group),
        "calls barrier",
        "calls allreduce",
    )


@check
def the_order_of_works_that_nobody_waited_for() -> None:
    def both(group: dist.ProcessGroup, *sizes: int) -> None:
        for work in [dist.all_reduce(ones(size), group=group, async_op=True) for size in (3, *sizes)]:
            work.wait()

    told(lambda group: both(group, 4, 800), lambda group: both(group, 800, 4), "4 Float", "800 Float")


@check
def splits_of_an_all_to_all() -> None:
    def split(group: dist.ProcessGroup, receives: list[int], sends: list[int]) -> None:
        dist.all_to_all_single(ones(sum(receives)), ones(sum(sends)), receives, sends, group=group)

    told(lambda group: split(group, [2, 2], [2, 3]), lambda group: split(group, [2, 2], [2, 2]), "12", "8")
    told(lambda group: split(group, [2, 2], [2, 2]), lambda group: split(group, [3, 2], [2, 2]), "12", "8")
    told(lambda group: dist.all_to_all([ones(1), ones(1)], [ones(1), ones(500)], group=group),
         lambda group: dist.all_to_all([ones(1), ones(1)], [ones(1), ones(1)], group=group), "2000", "4")  # fmt: skip


@check
def splits_of_uneven_collectives() -> None:
    told(lambda group: all_gather_into_tensor_uneven(ones(8), ones(2), [2, 6], group),
         lambda group: all_gather_into_tensor_uneven(ones(8), ones(4), [4, 4], group), "2 6", "4 4")  # fmt: skip
    told(lambda group: reduce_scatter_tensor_uneven(ones(2), ones(8), [2, 6], group=group),
         lambda group: reduce_scatter_tensor_uneven(ones(4), ones(8), [4, 4], group=group), "2 6", "4 4")  # fmt: skip
    told(lambda group: dist.all_gather([ones(2), ones(600)], ones(2), group=group),
         lambda group: dist.all_gather([ones(2), ones(4)], ones(4), group=group), "600 Float", "2 Float 4 Float")  # fmt: skip


@check
def both_ends_of_a_transfer() -> None:
    for there in (ones(700), ones(2), ones(4, torch.int32)):
        told(lambda group: dist.send(ones(4), 1, group=group),
             lambda group, there=there: dist.recv(there, 0, group=group), "sends 4 Float", f"receives {there.numel()}")  # fmt: skip


@check
def transfers_with_tags_in_another_order_match() -> None:
    sizes = {1: 4, 2: 700, 3: 9}
    if RANK == 0:
        works = [dist.isend(ones(size), 1, tag=tag) for tag, size in sizes.items()]
    else:
        works = [dist.irecv(ones(sizes[tag]), 0, tag=tag) for tag in (3, 1, 2)]
    for work in works:
        work.wait()


@check
def objects() -> None:
    told(lambda group: dist.broadcast_object_list([1], 0, group=group),
         lambda group: dist.all_gather_object([None, None], 1, group=group), "broadcast", "allgather")  # fmt: skip


if __name__ == "__main__":
    main(seconds=100)
