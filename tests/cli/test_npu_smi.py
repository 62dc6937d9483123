"""npu-smi: the vendor's text to the letter, numbers from the boards of live processes, exit codes with a meaning."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import softnpu
from softnpu.base.errors import NpuError
from softnpu.cli import npu_smi
from softnpu.cli.smi import collect as collecting
from softnpu.cli.smi import watch
from softnpu.cli.smi.collect import Snapshot, collect, sample
from softnpu.cli.smi.render import render_csv, render_json, render_table, render_watch
from softnpu.runtime.board import Board, DeviceUse, ProcessUse
from softnpu.runtime.device import DeviceInfo, Soc
from tests.paths import SOURCE

# Chip rows of the tests, after the samples that the manual of npu-smi prints and not after spec/.
CHIPS: dict[str, dict[str, Any]] = {
    "910B4": {"family": "910B", "generation": "A", "memory_kind": "hbm", "power_idle_w": 88.2, "temp_idle_c": 30},
    "310P3": {"family": "310P", "generation": "C", "memory_kind": "ddr", "power_idle_w": 17.0, "temp_idle_c": 49},
    "310": {"family": "310", "generation": "C", "memory_kind": "ddr", "power_idle_w": 12.8, "temp_idle_c": 45},
    "Ascend910": {"family": "A3", "generation": "A", "memory_kind": "hbm", "power_idle_w": 174.8, "temp_idle_c": 39,
                  "chips_per_card": 2, "name": "Ascend910_9391"},
}  # fmt: skip


def chip(short_name: str) -> Soc:
    blank = {"str": "", "int": 0, "float": 0.0, "bool": False}
    row: dict[str, Any] = {field.name: blank[str(field.type)] for field in fields(Soc)}
    row |= {
        "name": f"Ascend{short_name}",
        "short_name": short_name,
        "chips_per_card": 1,
        "aicore_mhz": 1800,
        "ai_cores": 20,
    }
    return Soc(**(row | CHIPS[short_name]))


def machine(short_name: str = "910B4", count: int = 2, memory_mb: int = 32768) -> list[DeviceInfo]:
    return [DeviceInfo(index=i, kind="host", soc=chip(short_name), memory_bytes=memory_mb << 20) for i in range(count)]


def process(
    pid: int = 4242,
    name: str = "python3.11",
    device: int = 0,
    mb: int = 100,
    busy: int = 0,
    since: int = 0,
    open_: bool = True,
) -> ProcessUse:
    use = DeviceUse(device, open_, mb << 20, (mb + 1) << 20, 2, 1, busy, 7, since)
    return ProcessUse(pid, name, 1, Path("none"), (use,))


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[DeviceInfo]:
    """The machine that the command sees: two 910B4, nobody on them."""
    here = machine()
    monkeypatch.setattr(npu_smi, "inventory", lambda: here)
    monkeypatch.setattr(collecting, "SAMPLE_S", 0.01)
    monkeypatch.setenv("SOFTNPU_RUNTIME_DIR", str(tmp_path))
    return here


@pytest.fixture
def board(devices: list[DeviceInfo], tmp_path: Path) -> Iterator[Board]:
    """This process with 3 GB on device 1."""
    opened = Board.open(tmp_path, [0, 1])
    opened.set_open(1, True)
    opened.set_memory(1, 3 << 30)
    yield opened
    opened.close()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = npu_smi.main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


TABLE_A = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.1                   Version: 24.1.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4               | OK            | 88.2        30                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          26838/ 32768         |
+===========================+===============+====================================================+
| 1     910B4               | OK            | 88.2        30                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          0    / 32768         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 1333928       | VLLMWorker_TP            | 26838                   |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""

TABLE_C = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 25.5.1                                   Version: 25.5.1                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 0       310P3                 | OK              | NA           49                0     / 0             |
| 0       0                     | 0000:C1:00.0    | 0            1448 / 44278                            |
+===============================+=================+======================================================+
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
+===============================+=================+======================================================+
| 0       0                     | 77              | msame                    | 1448                      |
+===============================+=================+======================================================+
"""

TABLE_A3 = """\
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 174.8       39                0    / 0             |
| 0     0                   | 0000:C1:00.0  | 0           0    / 0          0    / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           39                0    / 0             |
| 1     1                   | 0000:C2:00.0  | 0           0    / 0          5    / 65536         |
+===========================+===============+====================================================+
| 1     Ascend910           | OK            | 174.8       39                0    / 0             |
| 0     2                   | 0000:81:00.0  | 0           0    / 0          0    / 65536         |
+===========================+===============+====================================================+
"""


def test_table_of_hbm_chips() -> None:
    snapshot = collect(machine(), [process(1333928, "VLLMWorker_TP", 0, 26838)])
    assert render_table(replace(snapshot, version="24.1.1")) == TABLE_A


def test_table_of_the_310_families() -> None:
    snapshot = collect(machine("310P3", 1, 44278), [process(77, "msame", 0, 1448)])
    assert render_table(replace(snapshot, version="25.5.1")) == TABLE_C
    assert "| 12.8         45 " in render_table(collect(machine("310", 1), []))


def test_table_with_two_chips_on_a_card() -> None:
    text = render_table(collect(machine("Ascend910", 3, 65536), [process(77, "sglang", 1, 5)]))
    assert TABLE_A3 in text
    assert "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |" in text
    assert "| 0       1                 | 77            | sglang                   | 5                       |" in text
    assert text.count("No running processes found in NPU") == 1


@pytest.mark.parametrize(("name", "width"), [("910B4", 98), ("Ascend910", 98), ("310P3", 106), ("310", 106)])
def test_no_number_or_name_moves_a_border(name: str, width: int) -> None:
    crowd = [process(4194304 - i, "a name that is far too long é", 0, 10**7 + i) for i in range(12)]
    text = render_table(replace(collect(machine(name, 3, 10**8), crowd), version="1" * 80))
    assert {len(line.encode()) for line in text.splitlines()} == {width}


def test_at_most_eight_processes_per_chip_the_largest_first() -> None:
    text = render_table(collect(machine(), [process(100 + i, mb=i) for i in range(12)]))
    pids = [int(line.split("|")[2]) for line in text.splitlines() if "python" in line]
    assert pids == [111, 110, 109, 108, 107, 106, 105, 104]


@pytest.mark.parametrize(("name", "family"), [("310P3", "310"), ("910B4", "910")])
def test_the_awk_idiom_finds_the_chip(name: str, family: str) -> None:
    command = f"awk '{{print $3}}' | grep -m 1 {family}"
    text = render_table(collect(machine(name), []))
    done = subprocess.run(command, shell=True, input=text, capture_output=True, text=True, check=True)
    assert done.stdout == f"{name}\n"


def test_chips_of_both_generations_get_a_table_each() -> None:
    both = [*machine("910B4", 1), DeviceInfo(index=1, kind="host", soc=chip("310P3"), memory_bytes=1 << 30)]
    lines = render_table(collect(both, [])).splitlines()
    assert sorted({len(line) for line in lines}) == [98, 106]
    assert sum("No running processes" in line for line in lines) == 2


def test_memory_is_the_sum_over_processes_and_never_hides_a_byte() -> None:
    uses = [process(1, mb=100), process(2, mb=50), process(3, device=1, mb=7)]
    snapshot = collect(machine(), uses)
    assert [device.used_mb for device in snapshot.devices] == [150, 7]
    tiny = replace(process().devices[0], used=1)
    assert collect(machine(), [replace(process(), devices=(tiny,))]).devices[0].used_mb == 1


def test_a_process_that_neither_opened_nor_uses_a_device_is_not_on_it() -> None:
    assert collect(machine(), [process(mb=0, open_=False)]).devices[0].processes == ()
    assert len(collect(machine(), [process(mb=0)]).devices[0].processes) == 1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (process(busy=0), process(busy=25), 25),
        (process(busy=500), process(busy=500), 0),
        (process(busy=10, since=0), process(busy=10, since=1_040), 60),  # began within the window, still running
        (process(busy=10, since=900), process(busy=170, since=0), 60),  # 100 of those were spent before the window
        (process(busy=0, since=900), process(busy=0, since=900), 100),
        (process(busy=0), process(busy=10**6), 100),
        (process(busy=50), process(busy=0), 0),
    ],
)
def test_load_is_busy_time_over_the_window(before: ProcessUse, after: ProcessUse, expected: int) -> None:
    first = collect(machine(), [before], now=1_000)
    second = collect(machine(), [after], first, now=1_100)
    assert first.devices[0].aicore == 0
    assert [device.aicore for device in second.devices] == [expected, 0]


def test_load_of_several_processes_adds_up() -> None:
    first = collect(machine(), [process(1), process(2)], now=0)
    second = collect(machine(), [process(1, busy=30), process(2, busy=40), process(3, busy=10)], first, now=100)
    assert second.devices[0].aicore == 80
    assert {row.pid: row.aicore for row in second.devices[0].processes} == {1: 30, 2: 40, 3: 10}


def test_a_sample_is_waited_for_only_where_somebody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr("softnpu.cli.smi.collect.time.sleep", naps.append)
    sample(machine(), list)
    assert naps == []
    sample(machine(), lambda: [process()])
    assert naps == [collecting.SAMPLE_S]


def test_load_of_a_running_process_is_seen(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    board.task_started(1)
    _, out, _ = run(capsys, "info", "--query=utilization.aicore", "--format=csv,noheader,nounits")
    assert out.splitlines() == ["0", "100"]


def test_a_killed_process_disappears(
    devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = (
        "import sys, time; from pathlib import Path; from softnpu.runtime.board import Board\n"
        "b = Board.open(Path(sys.argv[1]), [0, 1]); b.set_open(1, True); b.set_memory(1, 99 << 20)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        _, before, _ = run(capsys, "info")
        child.kill()
        child.wait()
    _, after, _ = run(capsys, "info")
    row = f"| 1       0                 | {child.pid:<13} | "
    assert row in before and "| 99                      |" in before and " 99   / 32768 " in before
    assert row not in after and " 99   / 32768 " not in after
    assert "No running processes found in NPU 1 " in after
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_this_shell_does_not_describe_is_pointed_out(
    devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    board = Board.open(tmp_path, range(8))
    board.set_open(5, True)
    status, out, err = run(capsys, "info")
    board.close()
    assert status == 0 and f"process {os.getpid()} uses device 5" in err and "SOFTNPU_DEVICES" in err
    assert str(os.getpid()) not in out


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("", 215, "Usage: npu-smi <Command|-h|-v>"),
        ("-h", 0, "Usage: npu-smi <Command|-h|-v>"),
        ("--help", 0, "nothing is measured"),
        ("-v", 0, f"npu-smi version: {softnpu.__version__}\n"),
        ("frob", 215, "Command or option is not found.\nUsage: npu-smi"),
        ("info", 0, "| npu-smi "),
        ("info -h", 0, "constants of the chip"),
        ("info watch -h", 0, "u AI cube"),
        ("info --frob", 215, "Error parameter of --frob\n"),
        ("info frob", 215, "Error parameter of frob\n"),
        ("info -t", 215, "Error parameter of -t\n"),
        ("info -t frob", 215, "Error parameter of -t\nTypes: board, common,"),
        ("info -t ecc", 217, "This device does not support querying ecc.\n"),
        ("info -t product -i 0", 217, "This device does not support querying product.\n"),
        ("info -t volt -i 9", 208, "Invalid card id.\n"),
        ("info -t usages -i 2", 208, "Invalid card id.\n"),
        ("info -t usages -i 0 -c 1", 208, "Invalid chip id.\n"),
        ("info -t phyid-remap -p 2", 208, "Invalid physical id.\n"),
        ("info -i -1", 215, "Error parameter of -i\n"),
        ("info -i 99999999999999999999", 215, "Error parameter of -i\n"),
        ("info -i ²", 215, "Error parameter of -i\n"),
        ("info -l -m", 215, "Error parameter of -m\n"),
        ("info -s p", 215, "Error parameter of -s\n"),
        ("info --count 2", 215, "Error parameter of --count\n"),
        ("info watch -s pz", 215, "Error parameter of -s\n"),
        ("info watch -d 0", 215, "Error parameter of -d\n"),
        ("info watch -d 101", 215, "Error parameter of -d\n"),
        ("info watch --count 0", 215, "Error parameter of --count\n"),
        ("info --query=index,frob", 215, "Error parameter of --query\nField 'frob' is not known. Fields: index,"),
        ("info --format=xml", 215, "Error parameter of --format\n"),
        ("info -l --csv", 215, "Error parameter of --csv\n"),
        (
            "set -t ecc-enable -i 0 -d 1",
            217,
            "\tStatus                         : Fail\n\tMessage                        : ",
        ),
        ("clear -t ecc-info", 217, "cannot be done on simulated devices."),
        ("upgrade -b mcu", 217, "cannot be done on simulated devices."),
        ("set -h", 0, "SOFTNPU_SOC"),
    ],
)
def test_words_and_exit_codes(
    words: str, status: int, text: str, devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str]
) -> None:
    got, out, err = run(capsys, *words.split())
    assert (got, err) == (status, "")
    assert text in out


def test_no_device_is_not_a_success(devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str]) -> None:
    devices.clear()
    for words in (["info"], ["info", "-m"], ["info", "--json"]):
        status, out, _ = run(capsys, *words)
        assert status == 208 and out.startswith("There is no NPU card on this server.\n")


def test_a_bad_configuration_is_said(devices: list[DeviceInfo], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def refuse() -> list[DeviceInfo]:
        raise NpuError(107000, "chip 'Ascend1' is not known", "set SOFTNPU_SOC to one of: Ascend910B3")

    monkeypatch.setattr(npu_smi, "inventory", refuse)
    status, out, err = run(capsys, "info")
    assert status != 0 and out == ""
    assert err.startswith("Error: chip 'Ascend1' is not known\n") and "SOFTNPU_SOC" in err


def test_list_and_map(devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    assert run(capsys, "info", "-l")[1] == (
        "\tTotal Count                    : 2\n\n"
        "\tNPU ID                         : 0\n\tChip Count                     : 1\n\n"
        "\tNPU ID                         : 1\n\tChip Count                     : 1\n"
    )
    assert [line.rstrip() for line in run(capsys, "info", "-m")[1].splitlines()] == [
        "\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name",
        "\t0                              0                              0                              Ascend 910B4",
        "\t1                              0                              1                              Ascend 910B4",
    ]
    monkeypatch.setattr(npu_smi, "inventory", lambda: machine("Ascend910", 3))
    assert [line.split() for line in run(capsys, "info", "-m")[1].splitlines()[1:]] == [
        ["0", "0", "0", "0", "Ascend910"],
        ["0", "1", "1", "1", "Ascend910"],
        ["1", "0", "2", "2", "Ascend910"],
    ]
    monkeypatch.setattr(npu_smi, "inventory", lambda: machine("310P3", 1))
    assert run(capsys, "info", "-l")[1].startswith("\tCard Count                     : 1\n")


USAGES_A = [
    "DDR Capacity(MB)", "DDR Usage Rate(%)", "DDR Hugepages Total(page)", "DDR Hugepages Usage Rate(%)",
    "HBM Capacity(MB)", "HBM Usage Rate(%)", "Aicore Usage Rate(%)", "Aivector Usage Rate(%)", "Aicpu Usage Rate(%)",
    "Ctrlcpu Usage Rate(%)", "DDR Bandwidth Usage Rate(%)", "HBM Bandwidth Usage Rate(%)", "NPU Utilization(%)",
    "Aicube Usage Rate(%)",
]  # fmt: skip
USAGES_310P = [
    "DDR Capacity(MB)", "DDR Usage Rate(%)", "DDR Hugepages Total(page)", "DDR Hugepages Usage Rate(%)",
    "Aicore Usage Rate(%)", "Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)", "Vectorcore Usage Rate(%)",
    "DDR Bandwidth Usage Rate(%)", "DVPP VDEC Usage Rate(%)", "DVPP VPC Usage Rate(%)", "DVPP VENC Usage Rate(%)",
    "DVPP JPEGE Usage Rate(%)", "DVPP JPEGD Usage Rate(%)",
]  # fmt: skip
USAGES_310 = [
    "Memory Capacity(MB)", "Memory Usage Rate(%)", "Hugepages Total(page)", "Hugepages Usage Rate(%)",
    "Aicore Usage Rate(%)", "Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)", "Memory Bandwidth Usage Rate(%)",
]  # fmt: skip
COMMON = [
    "Memory Usage Rate(%)", "HBM Usage Rate(%)", "Aicore Usage Rate(%)", "Aicore Freq(MHZ)", "Aicore curFreq(MHZ)",
    "Aicore Count", "Temperature(C)", "NPU Real-time Power(W)",
]  # fmt: skip
MEMORY = [
    "DDR Capacity(MB)", "DDR Clock Speed(MHz)", "HBM Capacity(MB)", "HBM Clock Speed(MHz)", "HBM Temperature(C)",
    "HBM Manufacturer ID",
]  # fmt: skip
CARD_BOARD = [
    "NPU ID", "Product Name", "Model", "Manufacturer", "Serial Number", "Software Version", "Firmware Version",
    "Compatibility", "Board ID", "PCB ID", "BOM ID", "PCIe Bus Info", "Slot ID", "Class ID", "PCI Vendor ID",
    "PCI Device ID", "Subsystem Vendor ID", "Subsystem Device ID", "Chip Count",
]  # fmt: skip
CHIP_BOARD = [
    "NPU ID", "Chip ID", "Chip Type", "Chip Name", "Chip Version", "Board ID", "PCB ID", "BOM ID", "VDie ID", "NDie ID",
    "Chip Position ID", "PCIe Bus Info", "Firmware Version",
]  # fmt: skip
CARD = ["NPU ID", "Chip Count", ""]


@pytest.mark.parametrize(
    ("name", "words", "keys"),
    [
        ("910B4", "-t usages -i 1", [*CARD, *USAGES_A, "Chip ID"]),
        ("910B4", "-t usages -i 1 -c 0", USAGES_A),
        ("310P3", "-t usages -i 1", [*CARD, *USAGES_310P, "Chip ID"]),
        ("310", "-t usages -i 1", [*CARD, *USAGES_310, "Chip ID"]),
        ("910B4", "-t common -i 1", [*CARD, "Chip ID", *COMMON]),
        ("910B4", "-t memory -i 1 -c 0", MEMORY),
        ("910B4", "-t temp -i 1 -c 0", ["NPU Temperature (C)"]),
        ("310P3", "-t temp -i 1 -c 0", ["Temperature (C)"]),
        ("910B4", "-t power -p 1", ["NPU Real-time Power(W)"]),
        ("310", "-t power -i 1 -c 0", ["Power Dissipation(W)"]),
        ("910B4", "-t health -i 1", [*CARD, "Health", "Chip ID"]),
        ("910B4", "-t health -i 1 -c 0", ["Health Status", "Error Code", "Error Information"]),
        ("910B4", "-t board -i 1", CARD_BOARD),
        ("910B4", "-t board -i 1 -c 0", CHIP_BOARD),
        ("910B4", "-t phyid-remap -p 1", ["Chip Physical ID", "Chip Logic ID", "NPU ID", "Chip ID"]),
        ("Ascend910", "-t temp -i 0", [*CARD, "NPU Temperature (C)", "Chip ID", "", "NPU Temperature (C)", "Chip ID"]),
        ("910B4", "-t temp", [*CARD, "NPU Temperature (C)", "Chip ID", "", *CARD, "NPU Temperature (C)", "Chip ID"]),
    ],
)
def test_key_value_queries(
    name: str,
    words: str,
    keys: list[str],
    devices: list[DeviceInfo],
    monkeypatch: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(npu_smi, "inventory", lambda: machine(name))
    status, out, _ = run(capsys, "info", *words.split())
    assert status == 0
    lines = out.splitlines()
    assert [line[1:31].rstrip() if line else "" for line in lines] == keys
    assert all(line.startswith("\t") and line[31:34] == " : " and line[34:] for line in lines if line)


def test_queries_carry_the_numbers(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    usages = run(capsys, "info", "-t", "usages", "-i", "1", "-c", "0")[1]
    assert "\tHBM Capacity(MB)               : 32768\n\tHBM Usage Rate(%)              : 9\n" in usages
    assert "\tPCI Device ID                  : 0xD802\n" in run(capsys, "info", "-t", "board", "-i", "0")[1]
    common = run(capsys, "info", "-t", "common", "-i", "1")[1]
    assert "\tHBM Usage Rate(%)              : 9\n" in common and "\tAicore Count                   : 20\n" in common


def test_process_memory_query(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    comm = Path("/proc/self/comm").read_text().rstrip("\n")
    assert run(capsys, "info", "-t", "proc-mem", "-i", "1")[1].splitlines()[3:] == [
        f"\tProcess id:{os.getpid():<7} Process name:{comm:<17} Process memory(MB):3072",
        "\tChip ID                        : 0",
    ]
    assert run(capsys, "info", "-t", "proc-mem", "-i", "0", "-c", "0")[1] == "\tNo process in device.\n"


def test_topology_shows_links_and_cores(
    devices: list[DeviceInfo], monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8})
    lines = run(capsys, "info", "-t", "topo")[1].splitlines()
    assert lines[:3] == [
        "\t   NPU0       NPU1       CPU Affinity",
        "NPU0       X          HCCS       0-3,8",
        "NPU1       HCCS       X          0-3,8",
    ]
    assert "Legend:" in lines


def test_a_plain_watch_prints_a_line_a_period(
    board: Board, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    status, out, _ = run(capsys, "info", "watch", "--count", "2", "-d", "3")
    lines = out.splitlines()
    assert status == 0 and len(lines) == 5
    assert naps == [collecting.SAMPLE_S, 3]
    assert lines[0] == (
        "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  AI Cpu(%)   Ctrl Cpu(%) Memory(%)   "
        "Memory BW(%)   NPU Util(%)    AI Cube(%)"
    )
    starts = [
        lines[0].index(head) for head in ("NpuID", "ChipId", "Pwr", "Temp", "AI Core", "AI Cpu", "Ctrl", "Memory(")
    ]
    assert starts == [12 * i for i in range(8)]
    assert [line.split() for line in lines[1:3]] == [
        ["0", "0", "88.2", "30", "0", "0", "0", "0", "0", "0", "0"],
        ["1", "0", "88.2", "30", "0", "0", "0", "9", "0", "0", "0"],
    ]
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "0", "1"]


def test_watch_letters_choose_columns_in_the_fixed_order() -> None:
    assert render_watch(None, "mp") == "NpuID(Idx)  ChipId(Idx) Pwr(W)      Memory(%)\n"
    row = render_watch(collect(machine(count=1), [process(mb=16384)]), "mp")
    assert row == "0           0           88.2        50          \n"


def test_watch_writes_structured_periods_too(
    board: Board, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    lines = run(capsys, "info", "watch", "--json", "--count", "2")[1].splitlines()
    assert [json.loads(line)["devices"][1]["memory"]["used_mb"] for line in lines] == [3072, 3072]
    lines = run(capsys, "info", "watch", "--query=index", "--count", "2")[1].splitlines()
    assert lines == ["index", "0", "1", "0", "1"]


def test_processes_once_unless_a_period_is_given(
    board: Board, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    lines = run(capsys, "info", "proc")[1].splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [["1", "0", str(os.getpid()), "3072"]]
    run(capsys, "info", "proc", "-d", "5", "--count", "2")
    assert naps == [collecting.SAMPLE_S, collecting.SAMPLE_S, 5]
    assert len(run(capsys, "info", "proc", "-i", "0")[1].splitlines()) == 1


def test_json_holds_devices_and_processes(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "info", "--json")
    answer = json.loads(out)
    assert status == 0
    assert set(answer) == {"tool", "version", "simulated", "devices"}
    assert (answer["version"], answer["simulated"]) == (softnpu.__version__, True)
    first, second = answer["devices"]
    assert first == {
        "id": 0, "logic_id": 0, "card": 0, "chip": 0, "name": "Ascend910B4", "short_name": "910B4", "kind": "host",
        "health": "OK", "bus_id": "0000:C1:00.0",
        "memory": {"kind": "hbm", "used_mb": 0, "total_mb": 32768, "used_bytes": 0, "total_bytes": 32768 << 20},
        "utilization": {"aicore": 0, "memory": 0},
        "power": {"watts": 88.2, "simulated": True}, "temperature": {"celsius": 30, "simulated": True},
        "processes": [],
    }  # fmt: skip
    assert second["memory"]["used_mb"] == 3072
    (row,) = second["processes"]
    assert set(row) == {"pid", "name", "used_mb", "peak_mb", "streams", "contexts", "tasks", "aicore"}
    assert (row["pid"], row["used_mb"], row["peak_mb"]) == (os.getpid(), 3072, 3072)


def test_json_of_a_query_and_of_one_card(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(run(capsys, "info", "-t", "usages", "-i", "1", "--json")[1])
    assert answer["query"] == "usages"
    assert answer["blocks"][1]["HBM Usage Rate(%)"] == "9"
    answer = json.loads(run(capsys, "info", "-t", "proc-mem", "-i", "1", "-c", "0", "--json")[1])
    assert answer["blocks"][0]["Processes"][0]["used_mb"] == 3072
    assert [device["id"] for device in json.loads(run(capsys, "info", "-i", "1", "--json")[1])["devices"]] == [1]
    assert [device["id"] for device in json.loads(run(capsys, "info", "-m", "--json")[1])["devices"]] == [0, 1]


def test_json_holds_any_name() -> None:
    snapshot = collect(machine(), [process(name='a"\\é')])
    assert json.loads(render_json(snapshot))["devices"][0]["processes"][0]["name"] == 'a"\\é'


def test_csv_has_the_chosen_columns(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--query=index,name,memory.used,memory.free,utilization.memory"
    assert run(capsys, "info", words)[1] == run(capsys, words.replace("--query", "--query-npu"))[1]
    assert run(capsys, "info", words)[1].splitlines() == [
        "index, name, memory.used [MiB], memory.free [MiB], utilization.memory [%]",
        "0, Ascend910B4, 0 MiB, 32768 MiB, 0 %",
        "1, Ascend910B4, 3072 MiB, 29696 MiB, 9 %",
    ]
    assert (
        run(capsys, "info", words, "--format=csv,noheader,nounits")[1].splitlines()[1]
        == "1, Ascend910B4, 3072, 29696, 9"
    )
    assert run(capsys, "info", "--csv")[1].startswith("index, name, health, memory.used [MiB]")


def test_every_listed_query_field_works(devices: list[DeviceInfo], capsys: pytest.CaptureFixture[str]) -> None:
    names = run(capsys, "info", "--help-query")[1].split()
    assert "utilization.aicore" in names and len(names) == len(set(names))
    text = render_csv(collect(machine(count=1), [process()]), names)
    assert all(len(line.split(", ")) == len(names) for line in text.splitlines())


def test_live_view_shows_devices_and_processes() -> None:
    first = collect(machine(), [process(mb=30000, name="[red]:smile:")], now=0)
    second = collect(machine(), [process(mb=30000, busy=95, name="[red]:smile:")], first, now=100)
    history: watch.History = {}
    for snapshot in (first, second):
        watch.remember(history, snapshot)
    console = Console(file=io.StringIO(), width=110, force_terminal=True, _environ={})
    with console.capture() as capture:
        console.print(watch.view(second, history, console))
    text = capture.get()
    assert "30000/32768" in text and "95%" in text and "4242" in text
    assert "[red]:smile:" in text, "a process name is not markup"
    assert "▁█" in text and "q quits" in text


def test_bars_and_sparks() -> None:
    from collections import deque

    assert [watch.bar(part, 4) for part in (0, 1, 50, 100)] == ["░░░░", "█░░░", "██░░", "████"]
    assert watch.spark(deque([0, 50, 100]), 2) == "▅█"
    assert (watch.bar(50, 4, unicode=False), watch.spark(deque([0, 100]), 9, unicode=False)) == ("##..", " #")


def test_live_view_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    main_side, child_side = pty.openpty()
    before = termios.tcgetattr(child_side)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "SOFTNPU_RUNTIME_DIR": str(tmp_path), "TERM": "xterm"}
    command = [sys.executable, "-m", "softnpu.cli.npu_smi", "info", "watch"]
    with subprocess.Popen(command, env=environment, stdin=child_side, stdout=child_side, stderr=child_side) as child:
        seen, asked = b"", False
        deadline = time.monotonic() + 20
        while child.poll() is None and time.monotonic() < deadline:
            if select.select([main_side], [], [], 0.05)[0]:
                seen += os.read(main_side, 65536)
            if not asked and b"No running processes" in seen:
                during = termios.tcgetattr(child_side)
                os.write(main_side, b"q")
                asked = True
        child.kill()
    while select.select([main_side], [], [], 0)[0]:
        seen += os.read(main_side, 65536)
    after = termios.tcgetattr(child_side)
    os.close(main_side)
    os.close(child_side)
    assert child.returncode == 0
    assert during != before and after == before
    assert seen.count(b"\x1b[?1049h") == seen.count(b"\x1b[?1049l") == 1


def test_a_plain_answer_loads_no_rich_and_survives_a_closed_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "SOFTNPU_RUNTIME_DIR": str(tmp_path)}
    check = "import sys; from softnpu.cli.npu_smi import main; main(['info']); sys.exit('rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], env=environment, check=True, capture_output=True)
    command = f"set -o pipefail; {sys.executable} -m softnpu.cli.npu_smi info watch --count 3 | head -1"
    piped = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.startswith("NpuID(Idx)")


def test_rows_reach_a_pipe_at_once(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONUNBUFFERED": "",
        "PYTHONPATH": str(SOURCE),
        "SOFTNPU_RUNTIME_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "softnpu.cli.npu_smi", "info", "watch", "-d", "100", "-s", "u"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout is not None
        text = b""
        while text.count(b"\n") < 2 and select.select([child.stdout], [], [], 10)[0]:
            text += child.stdout.read(4096)
        child.kill()
    assert text.startswith(b"NpuID(Idx)  ChipId(Idx) AI Cube(%)\n0           0           0 ")


def test_selection_keeps_the_activity_of_all() -> None:
    first = collect(machine(), [process(device=1, busy=0)], now=0).select(card=1)
    second = collect(machine(), [process(device=1, busy=50)], first, now=100).select(card=1)
    assert isinstance(second, Snapshot)
    assert [(device.info.index, device.aicore) for device in second.devices] == [(1, 50)]
