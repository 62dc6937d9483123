"""The resource description (`numa_config.json`): which servers there are and what is in them."""

from __future__ import annotations

from dataclasses import dataclass

from softnpu.flow import jsonfile
from softnpu.flow.jsonfile import Item, show
from softnpu.flow.plan import Device

_FIRST_PORT, _LAST_PORT = 16666, 32767
_SHOWN = 8


@dataclass(frozen=True)
class Server:
    """One machine. `items` are the numbers of its devices."""

    number: int
    kind: str
    address: str
    local: bool
    items: tuple[int, ...]


@dataclass(frozen=True)
class Resources:
    """All machines of the file."""

    path: str
    servers: tuple[Server, ...]

    def holds(self, device: Device) -> bool:
        """Whether a logic device exists; -1 is the server itself."""
        return any(each.number == device.server and (device.device in (-1, *each.items)) for each in self.servers)

    def text(self) -> str:
        """The servers in a sentence."""
        shown = [f"{each.number} ({len(each.items)} items)" for each in self.servers[:_SHOWN]]
        return ", ".join(shown) + (" …" if len(self.servers) > _SHOWN else "")


def read(path: str) -> Resources:
    """Parse and check a resource description. What only a network of real devices needs (links, bandwidths) is not read."""
    item = jsonfile.read(path)
    clusters = item.objects("cluster", 1)
    if not clusters:
        item.fail("cluster", "is missing or empty; describe one cluster with its cluster_nodes")
    kinds = _kinds(item, "node_def", "node_type", ("X86", "Aarch", "Aarch64"))
    _kinds(item, "item_def", "item_type", ("Ascend",))
    servers = [_server(node, kinds) for node in clusters[0].objects("cluster_nodes")]
    if not servers:
        clusters[0].fail("cluster_nodes", "is missing or empty; describe at least one server")
    if len({server.number for server in servers}) != len(servers):
        clusters[0].fail("cluster_nodes", "has a node_id twice; give every server its own")
    return Resources(path, tuple(servers))


def _kinds(item: Item, key: str, name: str, allowed: tuple[str, ...]) -> set[str]:
    kinds = set()
    for part in item.objects(key):
        kinds.add(part.get(name, str))
        resource = part.get("resource_type", str, allowed[0])
        if resource not in allowed:
            part.fail("resource_type", f"is {show(resource)}; use {' or '.join(allowed)}")
    return kinds


def _server(item: Item, kinds: set[str]) -> Server:
    kind = item.get("node_type", str, "")
    if kind and kind not in kinds:
        item.fail("node_type", f"is {show(kind)}, which node_def does not describe; add it there")
    if item.has("port"):
        _number(item, "port", 65535)
    if item.object("data_panel").has("avail_ports"):
        _ports(item.object("data_panel"))
    devices = [_number(part, "item_id", 65535) for part in item.objects("item_list")]
    if len(set(devices)) != len(devices):
        item.fail("item_list", "has an item_id twice; give every item its own")
    number, address = _number(item, "node_id", 65535), item.get("ipaddr", str, "")
    return Server(number, kind, address, item.get("is_local", bool, False), tuple(devices))


def _number(item: Item, key: str, high: int) -> int:
    """A number, or a text of digits: the manual's own examples quote some."""
    value = item.values.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 5:
        item.values[key] = int(value)
    return item.number(key, 0, high)


def _ports(item: Item) -> None:
    text = item.get("avail_ports", str)
    first, tilde, last = text.partition("~")
    good = tilde and all(each.isascii() and each.isdigit() and len(each) <= 5 for each in (first, last))
    if not good or not _FIRST_PORT <= int(first) <= int(last) <= _LAST_PORT:
        item.fail("avail_ports", f"is {show(text)}; write first~last between {_FIRST_PORT} and {_LAST_PORT}")
