"""DataLoader in front of the device: pinned batches, workers, generators."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset, random_split

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")


class Sample(NamedTuple):
    image: torch.Tensor
    label: dict[str, torch.Tensor]


class Numbers(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Sample:
        return Sample(torch.full((3,), float(index)), {"n": torch.tensor(index), "name": f"n{index}"})


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_batches_move_without_loss(workers: int) -> None:
    torch.ones(1).npu()
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers, pin_memory=True)
    seen = []
    for batch in loader:
        assert batch.image.is_pinned() and batch.label["n"].is_pinned()
        images, labels = batch.image.npu(non_blocking=True), batch.label["n"].to("npu:1", non_blocking=True)
        assert images.is_npu and images[:, 0].tolist() == labels.tolist()
        seen += labels.tolist()
    assert seen == list(range(10))


def test_pin_memory_device_argument_and_default_agree() -> None:
    data = TensorDataset(torch.arange(4.0))
    with pytest.warns(match="pin_memory_device"):
        batches = [x for (x,) in DataLoader(data, batch_size=2, pin_memory=True, pin_memory_device="npu")]
    assert all(x.is_pinned() for x in batches) and torch.cat(batches).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert not any(x.is_pinned() for (x,) in DataLoader(data, batch_size=2))


@pytest.mark.slow
def test_spawned_workers() -> None:
    loader = DataLoader(Numbers(), batch_size=5, num_workers=1, multiprocessing_context="spawn", pin_memory=True)
    assert torch.cat([batch.image.npu()[:, 0] for batch in loader]).tolist() == [float(i) for i in range(10)]


class OnDevice(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index).npu()


def test_dataset_on_the_device_without_workers() -> None:
    assert [x.device.type for x in DataLoader(OnDevice(), batch_size=2)] == ["npu"]


def test_spawned_workers_may_return_device_tensors() -> None:
    loader = DataLoader(OnDevice(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [(x.device.type, x.tolist()) for x in loader] == [("npu", [0, 1])]


def test_forked_worker_that_uses_the_device_is_told_to_spawn() -> None:
    torch.ones(1).npu()
    with pytest.raises(RuntimeError, match="Cannot re-initialize NPU in forked subprocess"):
        list(DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork"))


def test_forked_workers_that_hold_device_tensors_are_told_to_spawn() -> None:
    data = TensorDataset(torch.arange(4.0).npu())
    with pytest.raises(RuntimeError, match="Cannot re-initialize NPU in forked subprocess"):
        list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))
    assert data.tensors[0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_persistent_workers_serve_several_rounds() -> None:
    torch.ones(1).npu()
    loader = DataLoader(Numbers(), batch_size=5, num_workers=2, persistent_workers=True, pin_memory=True)
    for _ in range(3):
        assert [batch.label["n"].npu().tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        assert torch.ones(2).npu().sum().item() == 2.0  # the device goes on between rounds


def test_order_follows_the_cpu_generator() -> None:
    def order() -> list[int]:
        loader = DataLoader(Numbers(), sampler=RandomSampler(Numbers(), generator=torch.Generator().manual_seed(4)))
        return [int(batch.label["n"]) for batch in loader]

    assert order() == order() != list(range(10))


def test_split_of_data_on_the_device() -> None:
    x = torch.arange(10.0).npu()
    one, two = random_split(TensorDataset(x), [7, 3], generator=torch.Generator().manual_seed(1))
    values = [value.item() for part in (one, two) for (value,) in part]
    assert (len(one), len(two), sorted(values)) == (7, 3, x.tolist())
