"""Who owns memory when kernels of others keep tensors, when exceptions are under way, after a fork, at sizes that wrap."""

from __future__ import annotations

import gc
import os

import pytest
import torch
from torch import Tensor

kept: list[Tensor] = []
table = torch.arange(10.0)


@torch.library.custom_op("softnpu_tests::give_table", mutates_args=(), device_types="cpu")
def give_table(x: Tensor) -> Tensor:
    return table


@torch.library.custom_op("softnpu_tests::keep_argument", mutates_args=(), device_types="cpu")
def keep_argument(x: Tensor) -> Tensor:
    kept.append(x)
    return x.clone()


def test_a_kernel_may_return_a_tensor_that_it_keeps() -> None:
    for _ in range(2):
        result = give_table(torch.ones(2, device="npu"))
        assert result.device.type == "npu" and result.sum().item() == 45
        del result
        assert table.tolist() == list(range(10))


def test_a_kernel_may_keep_its_argument() -> None:
    x = torch.ones(1_000_000, device="npu")
    keep_argument(x)
    del x
    gc.collect()
    other = torch.full((1_000_000,), 7.0, device="npu")
    assert kept.pop().unique().tolist() == [1.0]
    assert other[0].item() == 7


def test_shared_memory_may_go_while_an_exception_is_under_way() -> None:
    def shared() -> Tensor:
        return torch.ones(4).npu().share_memory_()

    with pytest.raises(ZeroDivisionError):
        [shared(), 1 / 0]


def test_sizes_that_would_wrap_are_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="ERR00006"):
        torch.npu.caching_allocator_alloc((1 << 64) - 1)


def test_a_forked_child_is_refused_every_use() -> None:
    x = torch.ones(3, device="npu")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answers = []
        for use in (
            lambda: x + 1,
            lambda: x.add_(1),
            x.item if x.numel() == 1 else x.sum,
            x.cpu,
            lambda: torch.randn_like(x),
        ):
            try:
                use()
                answers.append("worked")
            except RuntimeError as error:
                answers.append("refused" if "forked subprocess" in str(error) else str(error))
        os.write(writing, ",".join(answers).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert os.read(reading, 4096).decode() == ",".join(["refused"] * 5)
    os.close(reading)
    assert (x + 1).tolist() == [2, 2, 2]
