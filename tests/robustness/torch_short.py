"""A short walk through torch_npu for memory checkers (scripts/asan_torch.sh): it ends with "clean" when every value was right."""

from __future__ import annotations

import gc
import io
import threading

import torch
import torch_npu  # noqa: F401

npu = torch.npu


def memory() -> None:
    """Blocks of all sizes, pools, raw blocks, an end of memory, history, pinned memory."""
    npu.memory._record_memory_history(max_entries=50)
    held = [
        torch.full((size,), size % 251, dtype=torch.uint8, device="npu")
        for size in (1, 511, 513, 4096, 1 << 20, 3 << 20)
    ]
    assert all(bool((one == one.numel() % 251).all()) for one in held)
    npu.caching_allocator_delete(npu.caching_allocator_alloc(5000))
    with npu.use_mem_pool(npu.MemPool()):
        held.append(torch.ones(10, device="npu"))
    try:
        torch.empty(1 << 60, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        held.clear()
    held.append(torch.ones(1000).pin_memory().npu())
    held[0].record_stream(npu.Stream())
    npu.memory._snapshot()
    npu.memory._record_memory_history(None)


def operators() -> None:
    """Views, in-place, out=, lists, indexing, resizing, both devices, results that share memory."""
    x = torch.arange(24, dtype=torch.float32, device="npu").view(4, 6)
    y = x.t()[1:3].add_(1).relu_()
    assert y.sum().item() == (torch.arange(24).view(4, 6).t()[1:3] + 1).sum().item()
    out = torch.empty(0, device="npu")
    torch.mm(x, x.t(), out=out.resize_(4, 4))
    assert torch.equal(out.cpu(), x.cpu() @ x.cpu().t())
    parts = torch.split(torch.cat([x, x], 1), 5, 1)
    assert sum(one.numel() for one in parts) == 48
    assert x[x > 5].numel() == int((x.cpu() > 5).sum())
    assert torch.equal(x.to("npu:1").cpu(), x.cpu())
    torch._foreach_add_([y.clone(), y.clone()], 1.0)
    x.resize_(100).untyped_storage().resize_(0)
    assert torch.randperm(50, device="npu").sort().values.equal(torch.arange(50, device="npu"))


def training() -> None:
    """Forward, backward, an optimiser, mixed precision, saving and loading."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    ).npu()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        with torch.autocast("npu", dtype=torch.bfloat16):
            loss = model(torch.randn(2, 3, 8, 8, device="npu")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="npu:1")
    assert all(torch.equal(loaded[name].cpu(), value.cpu()) for name, value in model.state_dict().items())


def main() -> None:
    """All of it, also in threads, and once more at the end of the process."""
    for part in (memory, operators, training):
        part()
    threads = [threading.Thread(target=part) for part in (operators, training, operators)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    npu.empty_cache()
    assert npu.memory_allocated() == 0, npu.memory_allocated()
    global left
    left = torch.ones(1000, device="npu")  # goes while the interpreter ends
    print("clean")


if __name__ == "__main__":
    main()
