"""The help texts of npu-smi."""

from __future__ import annotations

from softnpu.cli.smi.query import known_types

MAIN = """\
Usage: npu-smi <Command|-h|-v> [Options...]

Commands:
       info           Show information of devices
       set            Set information of devices (answers Fail: devices are simulated)
       clear          Clear information of devices (answers Fail: devices are simulated)
       upgrade        Upgrade firmware (answers Fail: devices are simulated)
Options:
       -h, --help     Show this help
       -v             Show the version

This npu-smi is part of softnpu. Devices are simulated: memory, processes and AI Core use are those of running
softnpu programs; power, temperature, bus id and health are constants of the chip, nothing is measured.
"""

INFO = f"""\
Usage: npu-smi info [Options...]

       npu-smi info                  Summary of all devices and processes
       npu-smi info -l               Cards
       npu-smi info -m               Card, chip and logic ids
       npu-smi info -t <type> [-i card] [-c chip] [-p physical id]
                                     One kind of information:
                                     {", ".join(known_types())}
       npu-smi info watch            Follow the devices (npu-smi info watch -h)
       npu-smi info proc [-d secs]   Processes, once or every so many seconds
       npu-smi info -h               This help

Not in the real tool:
       --json                        One JSON object; also with -l, -t, watch and proc
       --csv                         A CSV line per device
       --query=<field,field>         The same with chosen fields (--help-query lists them)
       --format=csv[,noheader][,nounits]

Keys of the JSON object: tool, version, simulated, devices. Of a device: id (physical), logic_id, card, chip, name,
short_name, kind, health, bus_id, memory (kind, used_mb, total_mb, used_bytes, total_bytes), utilization (aicore,
memory), power (watts, simulated), temperature (celsius, simulated), processes. Of a process: pid, name, used_mb,
peak_mb, streams, contexts, tasks, aicore. Keys are added, never renamed.

AI Core use is the share of time in which a device had a task running, over 0.1 seconds or since the last row; the
cube and vector figures are the same number. Power, temperature, bus id and health are constants of the chip; AI CPU,
control CPU and bandwidth use are always 0: nothing of that is measured.

Exit status: 0 and a table when there is a device; otherwise the code modulo 256: 215 for a wrong parameter, 208 for
a device that is not there, 217 for what is not supported.
"""

WATCH = """\
Usage: npu-smi info watch [Options...]

Options:
       -i %d          Card ID
       -c %d          Chip ID
       -d %d          Seconds between rows, 1 to 100 (default 1)
       -s <letters>   Columns, e.g. -s ptam: p power, t temperature, a AI Core, i AI CPU, c control CPU,
                      m memory, b memory bandwidth, n NPU utilisation, u AI cube
       --count %d     Stop after so many periods
       --json, --csv  Write every period in that form

On a terminal, without -d, -s, --json and --csv, a live view is shown (q quits).
Power and temperature are constants of the chip; AI Cpu, Control Cpu and Memory Bandwidth are always 0.
"""

CHANGE = """\
Usage: npu-smi {command} [Options...]

Devices are simulated: every npu-smi {command} answers Fail. What can be changed is in environment variables:
SOFTNPU_DEVICES (how many devices), SOFTNPU_SOC (which chip), SOFTNPU_MEMORY (how much memory).
"""

NO_CHANGE = "npu-smi {command} cannot be done on simulated devices."
NO_CARDS = "Set SOFTNPU_DEVICES to the number of devices that you want.\n"
UNLISTED = (
    "Note: process {pid} uses device {device}, but this shell describes {count} device(s): "
    "set SOFTNPU_DEVICES as that program has it.\n"
)
TYPES = f"Types: {', '.join(known_types())}.\n"
