"""DataFlow on two cores: a chain of three nodes against the same chain of multiprocessing.Queue, of Ray actors (where Ray
is installed), and against a bare hand-over of shared memory; what a graph costs when it is idle; and what a hop costs
when there are many."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
from _tools import Result

NODES = 3
IN_FLIGHT = 64
SMALL, SMALL_COUNT = 1024, 6000
LARGE, LARGE_COUNT = 6_000_000, 200
ROUNDS = 5
_STOP = None


# ---- the chains: `send` and `receive` of a running one -------------------------------------------------------------------


class Flow:
    """Our own."""

    def __init__(self, nodes: int = NODES) -> None:
        import dataflow as df

        @df.pyflow
        def same(value):  # type: ignore[no-untyped-def]
            return value

        df.init({})
        data = df.FlowData()
        edge: Any = data
        for _ in range(nodes):
            edge = same.fnode()(edge)
        self._data = data
        self._graph = df.FlowGraph([edge])
        self._finalize = df.finalize

    def send(self, value: Any) -> None:
        assert self._graph.feed({self._data: value}) == 0

    def receive(self) -> Any:
        values, code = self._graph.fetch()
        assert code == 0
        return values[0]

    def pids(self) -> list[int]:
        return [row["pid"] for row in self._graph.statistics()]

    def close(self) -> None:
        self._finalize()


def _pass_on(source: Any, target: Any) -> None:
    while (value := source.get()) is not None:
        target.put(value)


class Queues:
    """multiprocessing.Queue between the same functions."""

    def __init__(self, nodes: int = NODES) -> None:
        context = multiprocessing.get_context("spawn")
        self._queues: list[Any] = [context.Queue(128) for _ in range(nodes + 1)]
        self._workers = [
            context.Process(target=_pass_on, args=pair, daemon=True)
            for pair in zip(self._queues, self._queues[1:], strict=False)
        ]
        for worker in self._workers:
            worker.start()
        self.send = self._queues[0].put
        self.receive = self._queues[-1].get

    def close(self) -> None:
        for queue, worker in zip(self._queues, self._workers, strict=False):
            queue.put(_STOP)
            worker.join(5)


def _take_names(names: Any, answers: Any, size: int) -> None:
    blocks: dict[str, Any] = {}
    while (name := names.recv()) is not None:
        if name not in blocks:
            blocks[name] = shared_memory.SharedMemory(name)
        np.frombuffer(blocks[name].buf, np.uint8, size)
        answers.send(name)


class Bare:
    """Nothing but shared memory: the sender copies into a free block, names go through pipes."""

    def __init__(self, size: int, nodes: int = NODES) -> None:
        context = multiprocessing.get_context("spawn")
        self._size = size
        self._blocks = [shared_memory.SharedMemory(create=True, size=size) for _ in range(IN_FLIGHT)]
        self._free = list(self._blocks)
        self._busy: list[Any] = []
        pipes = [context.Pipe(False) for _ in range(nodes + 1)]
        self._workers = [
            context.Process(target=_take_names, args=(pipes[at][0], pipes[at + 1][1], size), daemon=True)
            for at in range(nodes)
        ]
        for worker in self._workers:
            worker.start()
        self._first, self._last = pipes[0][1], pipes[-1][0]

    def send(self, value: Any) -> None:
        block = self._free.pop()
        np.frombuffer(block.buf, np.uint8, self._size)[:] = value
        self._busy.append(block)
        self._first.send(block.name)

    def receive(self) -> Any:
        self._last.recv()
        block = self._busy.pop(0)
        self._free.append(block)
        return np.frombuffer(block.buf, np.uint8, self._size)[0]

    def close(self) -> None:
        self._first.send(None)
        for worker in self._workers:
            worker.terminate()
            worker.join(5)
        for block in self._blocks:
            block.close()
            block.unlink()


class Actors:
    """A chain of Ray actors."""

    def __init__(self, nodes: int = NODES) -> None:
        import ray

        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False, num_cpus=NODES + 1, object_store_memory=512 << 20)

        @ray.remote
        class Same:
            def call(self, value: Any) -> Any:
                return value

        self._ray = ray
        self._actors = [Same.remote() for _ in range(nodes)]
        self._refs: list[Any] = []

    def send(self, value: Any) -> None:
        ref: Any = value
        for actor in self._actors:
            ref = actor.call.remote(ref)
        self._refs.append(ref)

    def receive(self) -> Any:
        return self._ray.get(self._refs.pop(0))

    def close(self) -> None:
        self._ray.shutdown()


# ---- measuring ---------------------------------------------------------------------------------------------------------------


def _rate(chain: Any, value: Any, count: int) -> float:
    waiting = 0
    began = time.perf_counter()
    for _ in range(count):
        if waiting == IN_FLIGHT:
            chain.receive()
            waiting -= 1
        chain.send(value)
        waiting += 1
    while waiting:
        chain.receive()
        waiting -= 1
    return count / (time.perf_counter() - began)


def _rates(chains: dict[str, Any], value: Any, counts: dict[str, int]) -> dict[str, float]:
    """In turns, medians; the first round only warms up."""
    by_chain: dict[str, list[float]] = {name: [] for name in chains}
    for turn in range(ROUNDS + 1):
        for name, chain in chains.items():
            rate = _rate(chain, value, counts[name])
            if turn:
                by_chain[name].append(rate)
    return {name: statistics.median(rates) for name, rates in by_chain.items()}


def _has_ray() -> bool:
    return importlib.util.find_spec("ray") is not None


def _small() -> list[Result]:
    value = np.arange(SMALL, dtype=np.uint8)
    chains: dict[str, Any] = {"ours": Flow(), "queue": Queues()}
    counts = {"ours": SMALL_COUNT, "queue": SMALL_COUNT, "ray": SMALL_COUNT // 20}
    if _has_ray():
        chains["ray"] = Actors()
    try:
        rates = _rates(chains, value, counts)
    finally:
        for chain in chains.values():
            chain.close()
    rows = [_row("1 kB through 3 nodes, multiprocessing.Queue", rates["ours"], rates["queue"], 1.0)]
    if "ray" in rates:
        rows.append(_row("1 kB through 3 nodes, Ray actors", rates["ours"], rates["ray"], 20.0))
    return rows


def _large() -> list[Result]:
    """Twice, with the chains made in both orders: whoever comes first gets the scattered pages of the machine's memory,
    and copying into them takes up to a third longer."""
    value = np.random.default_rng(1).integers(0, 255, LARGE, dtype=np.uint8)
    makers = {"ours": Flow, "queue": Queues, "bare": lambda: Bare(LARGE)}
    counts = {"ours": LARGE_COUNT, "queue": LARGE_COUNT // 5, "bare": LARGE_COUNT}
    rounds = []
    for names in (list(makers), list(makers)[::-1]):
        chains: dict[str, Any] = {}
        try:
            for name in names:
                chains[name] = makers[name]()
                _rate(chains[name], value, counts[name])  # takes its memory
            rounds.append(_rates(chains, value, counts))
        finally:
            for chain in chains.values():
                chain.close()
    rates = {name: statistics.fmean(each[name] for each in rounds) for name in makers}
    return [
        _row("6 MB frames through 3 nodes, multiprocessing.Queue", rates["ours"], rates["queue"], 10.0),
        _row("6 MB frames through 3 nodes, bare shared memory", rates["ours"], rates["bare"], 1 / 1.3),
    ]


def _row(name: str, ours: float, peer: float, wish: float) -> Result:
    ratio = ours / peer
    return Result(name, f"{ours:,.0f}/s", f"{peer:,.0f}/s", f"{ratio:.2f}", f"≥ {wish:.2f}", ratio >= wish)


def _cpu_seconds(pid: int) -> float:
    """To the nanosecond, over all threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _idle() -> list[Result]:
    from softnpu.flow.engines.embedded.zygote import zygote

    chain = Flow()
    try:
        for _ in range(10):
            chain.send(1)
            chain.receive()
        time.sleep(2.5)  # past the moment at which workers give free memory back
        pids = [*chain.pids(), os.getpid(), zygote().process.pid]
        before = [_cpu_seconds(pid) for pid in pids]
        time.sleep(4)
        used = sum(_cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True))
        memory = max(_resident(pid) for pid in pids[:-2])
    finally:
        chain.close()
    bare = subprocess.run(
        [sys.executable, "-c", "import numpy\nfor line in open('/proc/self/status'):\n if line.startswith('VmRSS'): print(line.split()[1])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        Result("idle graph of 3 nodes, CPU", f"{used / 4:.3%}", "0 %", "", "≤ 0.10 %", used / 4 <= 0.001),
        Result(
            "idle node, resident",
            f"{memory:.0f} MB",
            f"{int(bare.stdout) / 1024:.0f} MB (numpy)",
            "",
            "≤ 60 MB",
            memory <= 60,
        ),
    ]


def _many() -> list[Result]:
    value = np.arange(SMALL, dtype=np.uint8)
    costs = {}
    for nodes in (1, 4, 16, 64):
        chain = Flow(nodes)
        try:
            _rate(chain, value, 200)
            rates = [_rate(chain, value, 8000 // (nodes + 2)) for _ in range(3)]
        finally:
            chain.close()
        costs[nodes] = 1e6 / statistics.median(rates) / (nodes + 1)
    worst = max(costs[16], costs[64]) / costs[4]
    text = ", ".join(f"{nodes}: {cost:.0f}" for nodes, cost in costs.items())
    return [
        Result(
            "µs per hop with 1, 4, 16, 64 nodes",
            text,
            f"{costs[4]:.0f} (4 nodes)",
            f"{worst:.2f}",
            "≤ 1.50",
            worst <= 1.5,
        )
    ]


def results() -> list[Result]:
    """All rows."""
    return [*_small(), *_large(), *_idle(), *_many()]
