"""Sixteen threads on both npu devices: memory, streams, operators, pinned memory, out of memory, history, all at once.

    python tests/robustness/torch_hammer.py SECONDS [SEED]

Every value that a thread computes is checked. At the end nothing may be left: not in the figures, not in the devices. The exit status
is 0 only then; the last line is a count of what was done.
"""

from __future__ import annotations

import collections
import faulthandler
import gc
import json
import random
import sys
import threading
import time
import traceback

import torch
import torch_npu  # noqa: F401

from softnpu.runtime.process import process

npu = torch.npu
MIB = 1 << 20
THREADS = 16
ALLOWED = 700 * MIB  # of each device
HELD = 5 * MIB  # by each thread
LARGEST = 24 * MIB


class Worker:
    """One thread: draws what to do next, and keeps tensors whose contents it knows."""

    def __init__(self, number: int, seed: int, end: float) -> None:
        self.draw = random.Random(seed * 1000 + number)
        self.number = number
        self.end = end
        self.held: list[tuple[torch.Tensor, int]] = []
        self.done: collections.Counter[str] = collections.Counter()
        self.failure = ""

    def run(self) -> None:
        """Until the time is over or something is wrong."""
        actions = [name for name in dir(self) if name.startswith("do_")]
        rare = {"do_empty_cache", "do_out_of_memory", "do_history", "do_snapshot", "do_pool", "do_host_cache"}
        try:
            while time.monotonic() < self.end:
                name = self.draw.choice(actions)
                if name in rare and self.draw.random() > 0.05:
                    continue
                npu.set_device(self.draw.randrange(2))
                try:
                    getattr(self, name)()
                    self.done[name[3:]] += 1
                except torch.OutOfMemoryError:  # the limit is shared, so others may have taken what was left
                    self.done["refused"] += 1
                    self.drop(0)
            self.drop(0)
        except BaseException:
            self.failure = f"thread {self.number}:\n{traceback.format_exc()}"
        finally:
            self.held.clear()

    def drop(self, most: int) -> None:
        """Let go of tensors until at most so many bytes are held; each must still hold what was written."""
        while sum(tensor.numel() for tensor, _ in self.held) > most:
            tensor, value = self.held.pop(self.draw.randrange(len(self.held)))
            assert bool((tensor == value).all()), f"a tensor of {tensor.numel()} bytes no longer holds {value}"

    def size(self) -> int:
        return int(2 ** self.draw.uniform(0, 21)) if self.draw.random() < 0.98 else self.draw.randrange(MIB, LARGEST)

    def do_hold(self) -> None:
        value = self.draw.randrange(256)
        self.held.append((torch.full((self.size(),), value, dtype=torch.uint8, device="npu"), value))
        self.drop(HELD)

    def do_elementwise(self) -> None:
        count = self.draw.randrange(1, 5000)
        x = torch.arange(count, device="npu", dtype=torch.float32)
        y = x.mul(2).add_(1).relu_()
        assert y.sum().item() == torch.arange(count).mul(2).add(1).float().sum().item()

    def do_mm(self) -> None:
        rows = self.draw.randrange(1, 40)
        a = torch.randint(-8, 8, (rows, 30)).float()
        assert torch.equal(torch.mm(a.npu(), a.t().npu()).cpu(), a @ a.t())

    def do_cat_and_index(self) -> None:
        parts = [torch.full((self.draw.randrange(1, 300),), float(i), device="npu") for i in range(4)]
        joined = torch.cat(parts)
        wanted = torch.cat([part.cpu() for part in parts])
        places = torch.randint(0, len(wanted), (50,))
        assert torch.equal(joined[places.npu()].cpu(), wanted[places])

    def do_backward(self) -> None:
        x = torch.randint(-5, 5, (17, 9)).float()
        leaf = x.npu().requires_grad_()
        (leaf * leaf).sum().backward()
        assert torch.equal(leaf.grad.cpu(), 2 * x)

    def do_streams(self) -> None:
        stream, other = npu.Stream(), npu.Stream()
        first, last = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
        with npu.stream(stream):
            first.record()
            x = torch.full((self.draw.randrange(1, 100_000),), 3.0, device="npu")
            x.record_stream(other)
        with npu.stream(other):
            other.wait_stream(stream)
            total = x.sum()
            last.record()
        other.synchronize()
        assert total.item() == 3.0 * x.numel()
        assert first.elapsed_time(last) >= 0

    def do_resize(self) -> None:
        x = torch.arange(100, device="npu")
        x.resize_(self.draw.randrange(100, 5000))
        assert torch.equal(x[:100].cpu(), torch.arange(100))

    def do_between_devices(self) -> None:
        x = torch.randint(0, 100, (self.draw.randrange(1, 2000),))
        assert torch.equal(x.to("npu:0").to("npu:1").cpu(), x)

    def do_pinned(self) -> None:
        x = torch.randint(0, 100, (self.draw.randrange(1, 20_000),)).pin_memory()
        assert x.is_pinned()
        assert torch.equal(x.npu(non_blocking=True).cpu(), x)

    def do_raw(self) -> None:
        address = npu.caching_allocator_alloc(self.size())
        npu.caching_allocator_delete(address)

    def do_statistics(self) -> None:
        stats = npu.memory_stats()
        for name in (
            "allocated_bytes",
            "active_bytes",
            "reserved_bytes",
            "inactive_split_bytes",
            "segment",
            "allocation",
        ):
            parts = [stats[f"{name}.{pool}.current"] for pool in ("small_pool", "large_pool")]
            assert sum(parts) == stats[f"{name}.all.current"], (name, parts)
            assert min(parts) >= 0, (name, parts)
        used = [stats[f"{name}_bytes.all.current"] for name in ("requested", "allocated", "active", "reserved")]
        assert used[1] <= used[2] <= used[3] <= ALLOWED, used

    def do_out_of_memory(self) -> None:
        before = npu.memory_stats()["num_ooms"]
        try:
            torch.empty(ALLOWED + 1, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            assert "NPU out of memory. Tried to allocate 702.00 MiB" in str(error), error
            assert npu.memory_stats()["num_ooms"] > before
        else:
            raise AssertionError("memory above the limit was given")

    def do_empty_cache(self) -> None:
        npu.empty_cache()

    def do_host_cache(self) -> None:
        npu.host_empty_cache()
        assert npu.host_memory_stats()["active_bytes.current"] >= 0

    def do_history(self) -> None:
        enabled = self.draw.choice([None, "state", "all"])
        npu.memory._record_memory_history(enabled, self.draw.choice([None, "alloc", "all"]), max_entries=500)

    def do_snapshot(self) -> None:
        for segment in npu.memory._snapshot()["segments"]:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]

    def do_pool(self) -> None:
        pool = npu.MemPool()
        with npu.use_mem_pool(pool):
            x = torch.ones(1000, device="npu")
        assert x.sum().item() == 1000
        assert [segment["segment_pool_id"] for segment in pool.snapshot()] == [pool.id]


def remains() -> list[str]:
    """What is still counted when all tensors are gone."""
    npu.memory._record_memory_history(None)
    gc.collect()
    wrong = [f"npu:{i} has {npu.memory_allocated(i)} bytes in tensors" for i in range(2) if npu.memory_allocated(i)]
    npu.empty_cache()
    npu.host_empty_cache()
    for index in range(2):
        stats = npu.memory_stats(index)
        wrong += [
            f"npu:{index} {name} is {value}" for name, value in stats.items() if name.endswith(".current") and value
        ]
        for name in [name.removesuffix(".allocated") for name in stats if name.endswith(".allocated")]:
            if stats[f"{name}.allocated"] != stats[f"{name}.freed"]:
                wrong.append(
                    f"npu:{index} {name}: {stats[f'{name}.allocated']} taken, {stats[f'{name}.freed']} given back"
                )
        if process().devices[index].used:
            wrong.append(f"device {index} counts {process().devices[index].used} bytes as used")
    host = npu.host_memory_stats()
    wrong += [f"pinned {name} is {value}" for name, value in host.items() if name.endswith(".current") and value]
    if npu.memory_snapshot():
        wrong.append(f"{len(npu.memory_snapshot())} segments are left")
    return wrong


def main() -> int:
    """Run, then look at what is left."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    faulthandler.dump_traceback_later(seconds + 120, exit=True)
    torch.set_num_threads(1)
    for index in range(2):
        npu.set_per_process_memory_fraction(ALLOWED / npu.get_device_properties(index).total_memory, index)
    workers = [Worker(number, seed, time.monotonic() + seconds) for number in range(THREADS)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum((worker.done for worker in workers), collections.Counter())
    wrong = [worker.failure for worker in workers if worker.failure] or remains()
    print("\n".join(wrong), file=sys.stderr)
    print(json.dumps({"seconds": seconds, "seed": seed, "wrong": len(wrong), "done": dict(sorted(done.items()))}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
