"""The deployment file: which node runs on which logic devices, one instance on each."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from softnpu.flow import codes, jsonfile, log
from softnpu.flow.errors import DfException
from softnpu.flow.jsonfile import Item, show
from softnpu.flow.plan import Device, Node, Plan
from softnpu.flow.planning.numa import Resources

HOST = -1  # the device number of a server's own processor
MAX_DEVICES = 65535
_MAX_NUMBER = 32767
_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
_RANGE = re.compile(r"(\d{1,5})~(\d{1,5})", re.ASCII)
_KEYS = ("batch_deploy_info", "deploy_info", "keep_logic_device_order", "dynamic_schedule_enable")


@dataclass(frozen=True)
class Invoke:
    """Where an invoked closure of a node runs: on devices, or by a deployment file of its own."""

    name: str
    devices: tuple[Device, ...] = ()
    spares: tuple[Device, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Entry:
    """What the file says about one node. `spares` are the redundant devices."""

    devices: tuple[Device, ...]
    spares: tuple[Device, ...] = ()
    invokes: tuple[Invoke, ...] = ()


@dataclass
class Deployment:
    """A whole file, by alias or name of the node."""

    path: str
    entries: dict[str, Entry] = field(default_factory=dict)
    keep_order: bool = False
    dynamic: bool = False


def read(path: str) -> Deployment:
    """Parse and check a deployment file."""
    item = jsonfile.read(path)
    item.note_unknown(_KEYS)
    result = Deployment(
        path,
        keep_order=item.get("keep_logic_device_order", bool, False),
        dynamic=item.get("dynamic_schedule_enable", bool, False),
    )
    if not (item.has("batch_deploy_info") or item.has("deploy_info")):
        item.fail("", "has neither batch_deploy_info nor deploy_info; list every node in one of them")
    for part in item.objects("batch_deploy_info"):
        entry = _entry(part, result.keep_order)
        for name in part.texts("flow_node_list"):
            _add(result, part, "flow_node_list", name, entry)
    for part in item.objects("deploy_info"):
        entry = Entry(_devices(part, "logic_device_id", result.keep_order))
        _add(result, part, "flow_node_name", part.get("flow_node_name", str), entry)
    if not result.entries:
        item.fail("", "lists no node; every node of the graph has to be listed once")
    if result.dynamic:
        log.info("%s: dynamic_schedule_enable changes nothing here, instances are chosen by transaction", path)
    return result


def apply(plan: Plan, file: str | Deployment, resources: Resources | None = None) -> dict[str, tuple[Device, ...]]:
    """The instances of every node of a plan, by alias or name. With `resources`, devices have to be among them.

    Names that the plan does not have are allowed: the file of `init` serves all graphs of the program.
    """
    deployment = read(file) if isinstance(file, str) else file
    names = [label(node) for node in plan.nodes]
    missing = [name for name in names if name not in deployment.entries]
    if missing:
        others = sorted(deployment.entries.keys() - set(names))
        hint = f"; it lists {', '.join(others[:8])}, which the graph does not have" if others else ""
        raise DfException(
            f"{deployment.path}: node {', '.join(missing[:8])} of graph {plan.name} is not listed{hint}; "
            "list every node once, by its alias where it has one (df.utils.generate_deploy_template writes such a file)",
            codes.PARAM_INVALID,
        )
    result = {name: deployment.entries[name].devices for name in names}
    if resources is not None:
        for name, devices in result.items():
            _check_places(deployment, resources, name, devices)
    return result


def label(node: Node) -> str:
    """What a deployment file calls a node."""
    return node.alias or node.name


def parse_devices(text: str) -> list[Device]:
    """The devices of a list like `0:0:0~3,0:1:0:0`, in its order, each once; ValueError says what is wrong."""
    result: dict[Device, None] = {}
    total = 0
    for part in text.split(","):
        axes = _axes(part.strip())
        total += len(axes[0]) * len(axes[1]) * len(axes[2]) * len(axes[3])
        if total > MAX_DEVICES:
            raise ValueError(f"means more than {MAX_DEVICES} devices; list fewer")
        result.update((Device(*numbers), None) for numbers in itertools.product(*axes))
    return list(result)


def _axes(written: str) -> list[range]:
    fields = written.split(":")
    if len(fields) not in (3, 4):
        raise ValueError(f"has the device {show(written)}; write cluster:server:device or cluster:server:device:numa")
    axes = [_axis(written, number, text) for number, text in enumerate(fields)]
    if axes[0] != range(1):
        raise ValueError(f"has the device {show(written)} in cluster {fields[0]}; the cluster is always 0")
    return axes if len(axes) == 4 else [*axes, range(1)]


def _axis(written: str, number: int, text: str) -> range:
    if number == 2 and text == str(HOST):
        return range(HOST, HOST + 1)
    if _NUMBER.fullmatch(text):
        return range(int(text), int(text) + 1)
    limits = _RANGE.fullmatch(text)
    if not limits:
        raise ValueError(
            f"has the device {show(written)}, where {show(text)} is neither a number of 1 to 5 digits nor a range like 0~3"
        )
    first, last = int(limits[1]), int(limits[2])
    if first > last or last > _MAX_NUMBER:
        raise ValueError(f"has the range {text}; write first~last with 0 <= first <= last <= {_MAX_NUMBER}")
    return range(first, last + 1)


def _devices(item: Item, key: str, keep_order: bool) -> tuple[Device, ...]:
    text = item.get(key, str)
    try:
        devices = parse_devices(text)
    except ValueError as error:
        item.fail(key, str(error))
    return tuple(devices if keep_order else sorted(devices, key=_order))


def _order(device: Device) -> tuple[int, int, int, int]:
    return device.cluster, device.server, device.device, device.numa


def _spares(item: Item, keep_order: bool) -> tuple[Device, ...]:
    key = "redundant_logic_device_list"
    return _devices(item, key, keep_order) if item.has(key) else ()


def _entry(item: Item, keep_order: bool) -> Entry:
    return Entry(
        _devices(item, "logic_device_list", keep_order), _spares(item, keep_order), tuple(_invokes(item, keep_order))
    )


def _invokes(parent: Item, keep_order: bool) -> Iterator[Invoke]:
    seen = set()
    for item in parent.objects("invoke_list"):
        name = item.get("invoke_name", str)
        if name in seen:
            item.fail("invoke_name", f"{show(name)} is listed twice; list it once")
        seen.add(name)
        by_file, by_devices = item.has("deploy_info_file"), item.has("logic_device_list")
        if by_file and (by_devices or item.has("redundant_logic_device_list")):
            item.fail("", f"({show(name)}) has deploy_info_file and device lists; keep one of the two forms")
        if not (by_file or by_devices):
            item.fail("", f"({show(name)}) has neither deploy_info_file nor logic_device_list; add one of them")
        if by_file:
            yield Invoke(name, file=_beside(item.path, item.get("deploy_info_file", str)))
        else:
            yield Invoke(name, _devices(item, "logic_device_list", keep_order), _spares(item, keep_order))


def _beside(path: str, file: str) -> str:
    """A path in a file: relative to the working directory as all paths, else to the file that names it."""
    near = os.path.join(os.path.dirname(path), file)
    return near if not os.path.exists(file) and os.path.exists(near) else file


def _add(result: Deployment, item: Item, key: str, name: str, entry: Entry) -> None:
    if not name:
        item.fail(key, "has an empty name; write the alias or name of a node")
    if name in result.entries:
        item.fail(key, f"lists node {show(name)} again; list every node once")
    result.entries[name] = entry


def _check_places(deployment: Deployment, resources: Resources, name: str, devices: tuple[Device, ...]) -> None:
    for device in devices:
        if not resources.holds(device):
            address = f"{device.cluster}:{device.server}:{device.device}:{device.numa}"
            raise DfException(
                f"{deployment.path}: node {name} is put on {address}, which {resources.path} does not have; "
                f"servers and their items there: {resources.text()}",
                codes.PARAM_INVALID,
            )
