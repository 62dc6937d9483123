"""What must hold with every torch from 2.11 on: names that older ones lack, pinned memory, operators that they know."""

from __future__ import annotations

import warnings

import torch
import torch_npu  # noqa: F401
from torch._C._autograd import DeviceType


def test_torchs_enumerations_have_the_name_of_the_device() -> None:
    activity = torch.profiler.ProfilerActivity
    assert activity.PrivateUse1 == activity.NPU
    assert DeviceType.PrivateUse1 == DeviceType.NPU


def test_storages_are_pinned_for_npu_without_a_word_about_the_device() -> None:
    host = torch.arange(3.0)
    assert not host.untyped_storage().is_pinned()
    assert host.untyped_storage().pin_memory().is_pinned()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        assert host.storage().pin_memory().is_pinned()


def test_device_memory_counts_as_shared_and_host_memory_does_not() -> None:
    assert torch.ones(2, device="npu").is_shared()
    assert not torch.ones(2).is_shared()
    assert torch.ones(2).share_memory_().is_shared()


def test_every_kernel_has_an_operator_in_this_torch() -> None:
    assert [one for one in torch._C._dispatch_find_dangling_impls() if "PrivateUse1" in one] == []
