"""The key/value queries of npu-smi: `-l`, `-m` and `-t <type>`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from softnpu.cli.smi.collect import DeviceRow, Snapshot
from softnpu.cli.smi.render import Block

Fields = tuple[tuple[str, str], ...]

# Types that the real tool knows and for which a simulated device has no honest number.
UNSUPPORTED = frozenset(
    (
        "aicpu-config",
        "boot-area",
        "cert-info",
        "cpu-num-cfg",
        "current-fault-event",
        "custom-op",
        "custom-op-secverify-enable",
        "custom-op-secverify-mode",
        "device-share",
        "ecc",
        "ecc-enable",
        "err-count",
        "fan",
        "first-power-on-date",
        "flash",
        "gear",
        "hccs",
        "hccs-bw",
        "info-vnpu",
        "ip",
        "key-manage",
        "llc",
        "mac-addr",
        "mcu-monitor",
        "nve-level",
        "op-timeout",
        "p2p-enable",
        "pcie-err",
        "pcie-info",
        "pkcs",
        "product",
        "sensors",
        "sio-info",
        "spod-info",
        "ssh-enable",
        "sys-log-info",
        "sys-time",
        "template-info",
        "tls-cert",
        "tls-cert-period",
        "tls-csr",
        "user-config",
        "version",
        "vnpu-mode",
        "vnpu-svm",
        "volt",
        "work-mode",
    )
)

# By family of the chip row.
_PCI_DEVICES = {"310": "0xD100", "310B": "0xD105", "310P": "0xD500", "910": "0xD801", "910B": "0xD802", "A3": "0xD803"}


def list_cards(snapshot: Snapshot) -> list[Block]:
    """`npu-smi info -l`."""
    cards = snapshot.cards()
    total = "Total Count" if all(card[0].has_hbm for card in cards) else "Card Count"
    rows = [Block((("NPU ID", str(card[0].card)), ("Chip Count", str(len(card))))) for card in cards]
    return [Block(((total, str(len(cards))),)), *rows]


def render_map(snapshot: Snapshot) -> str:
    """`npu-smi info -m`."""
    physical = any(device.shows_physical_id for device in snapshot.devices)
    lines = [["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if physical else []), "Chip Name"]]
    for device in snapshot.devices:
        phy = [str(device.info.index)] if physical else []
        lines.append([str(device.card), str(device.chip), str(device.logic), *phy, device.full_name])
    return "".join("\t" + " ".join(f"{cell:<30}" for cell in line) + "\n" for line in lines)


def render_topology(snapshot: Snapshot) -> str:
    """`npu-smi info -t topo`: simulated devices reach each other through the memory of this host."""
    names = [
        f"Phy-ID{device.info.index}" if device.shows_physical_id else f"NPU{device.info.index}"
        for device in snapshot.devices
    ]
    affinity = _cpu_list(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else "NA"
    lines = ["\t   " + "".join(f"{name:<11}" for name in names) + "CPU Affinity"]
    for name in names:
        cells = "".join(f"{'X' if other == name else 'HCCS':<11}" for other in names)
        lines.append(f"{name:<11}{cells}{affinity}")
    legend = [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  HCCS = Cache-coherent link, here the memory of the host (simulated devices).",
    ]
    return "\n".join([*lines, *legend]) + "\n"


def query(snapshot: Snapshot, kind: str, chip_given: bool) -> list[Block]:
    """The blocks of `-t kind` for one of `known_types`."""
    if kind == "board" and chip_given:
        return [Block(_chip_board(snapshot, device)) for device in snapshot.devices]
    if kind == "board":
        return [Block(_card_board(snapshot, card)) for card in snapshot.cards()]
    if kind == "phyid-remap":
        return [Block(_identity(device)) for device in snapshot.devices]
    blocks = []
    for card in snapshot.cards():
        if not chip_given:
            blocks.append(Block((("NPU ID", str(card[0].card)), ("Chip Count", str(len(card))))))
        blocks += [_chip_block(kind, device, chip_given) for device in card]
    return blocks


def known_types() -> list[str]:
    """The types that are answered."""
    return sorted([*_PER_CHIP, "board", "phyid-remap", "topo"])


def _chip_block(kind: str, device: DeviceRow, chip_given: bool) -> Block:
    fields = _PER_CHIP[kind](device)
    chip = (("Chip ID", str(device.chip)),)
    if kind == "health" and not chip_given:
        fields = (("Health", "OK"),)
    if kind == "common":
        fields = (*chip, *fields)
    elif not chip_given:
        fields = (*fields, *chip)
    return Block(fields, device.processes if kind == "proc-mem" else None)


def _pairs(rows: Iterable[tuple[str, object]]) -> Fields:
    return tuple((key, str(value)) for key, value in rows)


def _common(device: DeviceRow) -> Fields:
    chip = device.soc
    memory = device.memory_percent
    rates = (
        (("Memory Usage Rate(%)", 0), ("HBM Usage Rate(%)", memory))
        if device.has_hbm
        else (("Memory Usage Rate(%)", memory),)
    )
    return _pairs(
        (
            *rates,
            ("Aicore Usage Rate(%)", device.aicore),
            ("Aicore Freq(MHZ)", chip.aicore_mhz),
            ("Aicore curFreq(MHZ)", chip.aicore_mhz),
            ("Aicore Count", chip.ai_cores),
            ("Temperature(C)", chip.temp_idle_c),
            ("NPU Real-time Power(W)", device.power),
        )
    )


def _usages(device: DeviceRow) -> Fields:
    busy, memory = device.aicore, device.memory_percent
    if device.has_hbm:
        return _pairs(
            (
                ("DDR Capacity(MB)", 0),
                ("DDR Usage Rate(%)", 0),
                ("DDR Hugepages Total(page)", 0),
                ("DDR Hugepages Usage Rate(%)", 0),
                ("HBM Capacity(MB)", device.total_mb),
                ("HBM Usage Rate(%)", memory),
                ("Aicore Usage Rate(%)", busy),
                ("Aivector Usage Rate(%)", busy),
                ("Aicpu Usage Rate(%)", 0),
                ("Ctrlcpu Usage Rate(%)", 0),
                ("DDR Bandwidth Usage Rate(%)", 0),
                ("HBM Bandwidth Usage Rate(%)", 0),
                ("NPU Utilization(%)", busy),
                ("Aicube Usage Rate(%)", busy),
            )
        )
    memory_name = "DDR" if device.is_310p else "Memory"
    pages = "DDR Hugepages" if device.is_310p else "Hugepages"
    media = ("VDEC", "VPC", "VENC", "JPEGE", "JPEGD") if device.is_310p else ()
    return _pairs(
        (
            (f"{memory_name} Capacity(MB)", device.total_mb),
            (f"{memory_name} Usage Rate(%)", memory),
            (f"{pages} Total(page)", 0),
            (f"{pages} Usage Rate(%)", 0),
            ("Aicore Usage Rate(%)", busy),
            ("Aicpu Usage Rate(%)", 0),
            ("Ctrlcpu Usage Rate(%)", 0),
            *((("Vectorcore Usage Rate(%)", busy),) if device.is_310p else ()),
            (f"{memory_name} Bandwidth Usage Rate(%)", 0),
            *((f"DVPP {unit} Usage Rate(%)", 0) for unit in media),
        )
    )


def _memory(device: DeviceRow) -> Fields:
    if not device.has_hbm:
        return _pairs((("DDR Capacity(MB)", device.total_mb), ("DDR Clock Speed(MHz)", "NA")))
    return _pairs(
        (
            ("DDR Capacity(MB)", 0),
            ("DDR Clock Speed(MHz)", 0),
            ("HBM Capacity(MB)", device.total_mb),
            ("HBM Clock Speed(MHz)", "NA"),
            ("HBM Temperature(C)", "NA"),
            ("HBM Manufacturer ID", "NA"),
        )
    )


def _temp(device: DeviceRow) -> Fields:
    return _pairs((("NPU Temperature (C)" if device.has_hbm else "Temperature (C)", device.soc.temp_idle_c),))


def _power(device: DeviceRow) -> Fields:
    return _pairs((("NPU Real-time Power(W)" if device.has_hbm else "Power Dissipation(W)", device.power),))


def _health(device: DeviceRow) -> Fields:
    return (("Health Status", "OK"), ("Error Code", "NA"), ("Error Information", "NA"))


_PER_CHIP: dict[str, Callable[[DeviceRow], Fields]] = {
    "common": _common,
    "usages": _usages,
    "memory": _memory,
    "temp": _temp,
    "power": _power,
    "health": _health,
    "proc-mem": lambda device: (),
}


def _identity(device: DeviceRow) -> Fields:
    return _pairs(
        (
            ("Chip Physical ID", device.info.index),
            ("Chip Logic ID", device.logic),
            ("NPU ID", device.card),
            ("Chip ID", device.chip),
        )
    )


def _card_board(snapshot: Snapshot, card: list[DeviceRow]) -> Fields:
    first = card[0]
    return _pairs(
        (
            ("NPU ID", first.card),
            ("Product Name", f"softnpu {first.soc.name}"),
            ("Model", "simulated"),
            ("Manufacturer", "softnpu"),
            ("Serial Number", "NA"),
            ("Software Version", snapshot.version),
            ("Firmware Version", "NA"),
            ("Compatibility", "OK"),
            *((key, "NA") for key in ("Board ID", "PCB ID", "BOM ID")),
            ("PCIe Bus Info", first.bus_id),
            ("Slot ID", first.card),
            ("Class ID", "NPU"),
            ("PCI Vendor ID", "0x19E5"),
            ("PCI Device ID", _PCI_DEVICES.get(first.soc.family, "NA")),
            *((key, "NA") for key in ("Subsystem Vendor ID", "Subsystem Device ID")),
            ("Chip Count", len(card)),
        )
    )


def _chip_board(snapshot: Snapshot, device: DeviceRow) -> Fields:
    return _pairs(
        (
            ("NPU ID", device.card),
            ("Chip ID", device.chip),
            ("Chip Type", "Ascend"),
            ("Chip Name", device.soc.short_name),
            ("Chip Version", "V1"),
            *((key, "NA") for key in ("Board ID", "PCB ID", "BOM ID", "VDie ID", "NDie ID")),
            ("Chip Position ID", device.chip),
            ("PCIe Bus Info", device.bus_id),
            ("Firmware Version", "NA"),
        )
    )


def _cpu_list(cpus: Iterable[int]) -> str:
    """CPU numbers as ranges: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
