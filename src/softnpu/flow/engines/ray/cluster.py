"""Ray itself: joined where there is a cluster, started and ended where there is none; and places for actors in it."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from softnpu.base import config
from softnpu.flow import codes, log
from softnpu.flow.errors import DfException
from softnpu.flow.plan import Plan
from softnpu.flow.transport.layout import Layout

_MEGABYTE = 1 << 20
_SMALLEST_STORE = 128 << 20
_LARGEST_STORE = 2 << 30
_LEAST_CPU = 0.01  # a bundle has to ask for something
_GROUP_SECONDS = 60.0

_lock = threading.Lock()
_sessions = 0  # that use the Ray that was started or joined here
_started = False  # it was started, and is this machine alone


def load() -> Any:
    """The module; DfException that says how to get it."""
    try:
        import ray
    except ImportError as problem:
        raise DfException(
            f"The engine ray needs Ray, which cannot be imported here ({problem}). "
            'Install it with: pip install "softnpu[ray]"  (or pip install "ray>=2.9"), '
            'or choose the engine "embedded".',
            codes.FAILED,
        ) from problem
    return ray


class RayUse:
    """A session that uses Ray: the last one ends the Ray that was started here, or leaves the cluster that was joined."""

    def __init__(self, plan: Plan) -> None:
        global _sessions, _started
        self.ray = load()
        with _lock:
            if not self.ray.is_initialized():
                _started = self._begin(plan)
                _sessions = 0
                self._counted = True
            else:
                self._counted = _sessions > 0
            _sessions += self._counted
            self.local = self._counted and _started

    def _begin(self, plan: Plan) -> bool:
        """Join or start; whether it was started."""
        address = config.ray_address(plan.options)
        quiet = {"logging_level": logging.ERROR, "log_to_driver": True}
        try:
            if address:
                _starter().submit(self.ray.init, address=address, **quiet).result()
                log.info("joined the Ray cluster at %s", address)
            else:
                cpus = max(os.cpu_count() or 1, sum(need.get("CPU", 0) for need in needs(plan)))
                _starter().submit(
                    self.ray.init,
                    address="local",
                    include_dashboard=False,
                    num_cpus=int(cpus),
                    object_store_memory=_store_size(),
                    **quiet,
                ).result()
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            where = f"join the Ray cluster at {address}" if address else "start a local Ray"
            raise DfException(
                f"Could not {where}: {problem}. Check RAY_ADDRESS and the option softnpu.flow.ray_address.",
                codes.FAILED,
            ) from problem
        return not address

    def release(self) -> None:
        """The session is over."""
        global _sessions
        with _lock:
            if self._counted:
                self._counted = False
                _sessions -= 1
                if _sessions == 0:
                    self.ray.shutdown()


@functools.cache
def _starter() -> ThreadPoolExecutor:
    """A thread that lasts: processes that Ray starts end with the thread that started them, not with the program."""
    return ThreadPoolExecutor(1, "ray starter")


def _store_size() -> int:
    """Ray would take a third of all memory; a few dozen frames are enough, more goes to the disk."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    return max(_SMALLEST_STORE, min(_LARGEST_STORE, shutil.disk_usage(folder).free // 4))


def needs(plan: Plan) -> list[dict[str, float]]:
    """What each node instance asks for, in Ray's words."""
    words = (("num_cpus", "CPU", 1), ("memory", "memory", _MEGABYTE), ("num_npus", "NPU", 1))
    return [
        {ray: node.resources[ours] * unit for ours, ray, unit in words if node.resources.get(ours)}
        for node in plan.nodes
        for _ in node.instances
    ]


class Places:
    """Where each actor goes, and what it reserves."""

    def __init__(self, ray: Any, plan: Plan, layout: Layout) -> None:
        self._ray = ray
        self._plan = plan
        self._layout = layout
        self._group: Any = None
        nodes = [node for node in ray.nodes() if node.get("Alive")]
        total: dict[str, float] = ray.cluster_resources()
        asked = needs(plan)
        self._asked = {
            process: _sum([asked[seat.number] for seat in layout.seats_of(process)])
            for process in range(1, layout.processes)
        }
        self._leave_out(total)
        self._check(nodes)
        self._servers = sorted({self._server(process) for process in self._asked})
        if len(self._servers) > 1 and len(nodes) > 1:
            self._reserve(len(nodes))

    def _server(self, process: int) -> tuple[int, int]:
        seat = self._layout.seats_of(process)[0]
        device = self._plan.nodes[seat.node].instances[seat.instance]
        return device.cluster, device.server

    def _leave_out(self, total: dict[str, float]) -> None:
        """What this cluster does not keep account of is only a wish."""
        for name in ("NPU", "memory"):
            wanted = sum(need.get(name, 0) for need in self._asked.values())
            if wanted > total.get(name, 0):
                log.warning(
                    "the nodes ask for %s %s, the Ray cluster has %s: not reserved", wanted, name, total.get(name, 0)
                )
                for need in self._asked.values():
                    need.pop(name, None)

    def _check(self, nodes: list[dict[str, Any]]) -> None:
        """Ray would wait for ever for what no machine has."""
        wanted = sum(need.get("CPU", 0) for need in self._asked.values())
        has = sum(node["Resources"].get("CPU", 0) for node in nodes)
        largest = max((node["Resources"].get("CPU", 0) for node in nodes), default=0)
        most = max((need.get("CPU", 0) for need in self._asked.values()), default=0)
        if wanted > has or most > largest:
            raise DfException(
                f"The nodes of graph {self._plan.name} ask for {wanted} CPUs, the largest for {most}; the Ray cluster has "
                f"{has}, its largest machine {largest}. Lower num_cpus in resources or add machines.",
                codes.FAILED,
            )

    def _reserve(self, machines: int) -> None:
        """A bundle for each server of the deployment file, on machines of their own where there are enough."""
        from ray.util.placement_group import placement_group

        bundles = []
        for server in self._servers:
            bundle = _sum([need for process, need in self._asked.items() if self._server(process) == server])
            bundle["CPU"] = max(bundle.get("CPU", 0), _LEAST_CPU)
            bundles.append(bundle)
        strategy = "STRICT_SPREAD" if machines >= len(self._servers) else "PACK"
        if strategy == "PACK":
            log.warning("%s servers are deployed to, the Ray cluster has %s machines", len(self._servers), machines)
        self._group = placement_group(bundles, strategy=strategy)
        try:
            self._ray.get(self._group.ready(), timeout=_GROUP_SECONDS)
        except self._ray.exceptions.GetTimeoutError as problem:
            self.release()
            raise DfException(
                f"The Ray cluster gave no place for {bundles} ({strategy}) within {_GROUP_SECONDS:.0f} s.", codes.FAILED
            ) from problem

    def options(self, process: int) -> dict[str, Any]:
        """Options of the actor of a process."""
        need = self._asked[process]
        options: dict[str, Any] = {"num_cpus": need.get("CPU", 0), "max_restarts": 0, "max_task_retries": 0}
        if "memory" in need:
            options["memory"] = need["memory"]
        if "NPU" in need:
            options["resources"] = {"NPU": need["NPU"]}
        if self._group is not None:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=self._servers.index(self._server(process))
            )
        return options

    def release(self) -> None:
        """Give bundles back."""
        if self._group is not None:
            from ray.util.placement_group import remove_placement_group

            remove_placement_group(self._group)
            self._group = None


def _sum(needs: list[dict[str, float]]) -> dict[str, float]:
    names = {name for need in needs for name in need}
    return {name: sum(need.get(name, 0) for need in needs) for name in names}
