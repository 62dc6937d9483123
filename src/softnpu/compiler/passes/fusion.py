"""Which fusion passes run, and what they did: switch files, `--optimization_switch` and `fusion_result.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softnpu.base import config
from softnpu.compiler.errors import AtcError

GRAPH, UB = "GraphFusion", "UBFusion"
GROUPS = (GRAPH, UB)
ALL = "ALL"
KEPT_ON = frozenset(
    {"AABiasaddConvFusion"}
)  # passes of ours that a switch file cannot close; --optimization_switch can
_MAX_BYTES = 1 << 20
_STATES = {"on": True, "off": False}
_RESULT = "fusion_result.json"


@dataclass(frozen=True)
class Switches:
    """What the user switched: per group from the file, and by name from `--optimization_switch`."""

    file: dict[str, dict[str, bool]] = field(default_factory=dict)
    option: dict[str, bool] = field(default_factory=dict)

    def on(self, name: str, group: str) -> bool:
        """Whether a pass runs: the option counts most, then what cannot be closed, the named entry, ALL; else it is on."""
        if name in self.option:
            return self.option[name]
        if name in KEPT_ON:
            return True
        entries = self.file.get(group, {})
        return entries.get(name, entries.get(ALL, True))

    def asked(self, name: str, group: str) -> bool:
        """Whether a pass that is off by itself was switched on by its name."""
        return self.option.get(name, self.file.get(group, {}).get(name, False))


def read_switches(path: str | Path | None = None, option: str = "") -> Switches:
    """The switches of a file (`--fusion_switch_file`) and of the text of `--optimization_switch`."""
    return Switches(read_switch_file(Path(path)) if path else {}, parse_option(option))


def read_switch_file(path: Path) -> dict[str, dict[str, bool]]:
    """A switch file, in the form of lines or of JSON: group → pass → on."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise AtcError(
            "E21001",
            f"Failed to open the file [{path}]: {error.strerror}",
            "the path is wrong or the file is not readable",
            "check --fusion_switch_file",
        ) from error
    if len(data) > _MAX_BYTES:
        raise _malformed(path, f"it is larger than {_MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _malformed(path, "it is not text in UTF-8") from error
    return _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)


def _malformed(path: Path, reason: str) -> AtcError:
    return AtcError(
        "E20003",
        f"The content of the fusion switch file [{path}] is invalid: {reason}",
        "a line, a name or a value is not what the file may hold",
        'write lines such as "PassName:off", or JSON such as {"Switch":{"GraphFusion":{"ALL":"off"},"UBFusion":{"ALL":"off"}}}',
    )


def _from_lines(path: Path, text: str) -> dict[str, dict[str, bool]]:
    """One `PassName:on` a line; a name counts in both groups."""
    states: dict[str, bool] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, state = (part.strip() for part in line.partition(":"))
        if not colon or not name or state not in _STATES:
            raise _malformed(path, f"line {number} is {line.strip()!r}")
        if name in states:
            raise _malformed(path, f"line {number} names {name} again")
        states[name] = _STATES[state]
    return {group: dict(states) for group in GROUPS}


def _from_json(path: Path, text: str) -> dict[str, dict[str, bool]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            names = [name for name, _ in pairs]
            raise _malformed(path, f"{next(name for name in names if names.count(name) > 1)} is there twice")
        return entries

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, f"it is no JSON ({error})") from error
    groups = content.get("Switch")
    if not isinstance(groups, dict) or len(content) != 1:
        raise _malformed(path, "it must hold the one entry Switch, an object")
    switches = {}
    for group, entries in groups.items():
        if group not in GROUPS or not isinstance(entries, dict):
            raise _malformed(path, f"Switch holds {group!r}; GraphFusion and UBFusion, both objects, may stand there")
        for name, state in entries.items():
            if not isinstance(state, str) or state not in _STATES:
                raise _malformed(path, f"{name} has the value {state!r}; on and off may stand there")
        switches[group] = {name: _STATES[state] for name, state in entries.items()}
    return switches


def parse_option(text: str) -> dict[str, bool]:
    """`PassA:on;PassB:off`."""
    states: dict[str, bool] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, colon, state = (text_part.strip() for text_part in part.partition(":"))
        if not colon or not name or state not in _STATES or name in states:
            reason = (
                f"{name} is there twice"
                if name in states
                else f"{part.strip()!r} is not of the form PassName:on or PassName:off"
            )
            raise AtcError(
                "E10001",
                f"Value [{text}] for parameter [--optimization_switch] is invalid. Reason: {reason}",
                "the value cannot be read",
                'write "PassA:on;PassB:off"',
            )
        states[name] = _STATES[state]
    return states


# ---- the report ------------------------------------------------------------------------------------------------------


class FusionReport:
    """How often every pass matched and changed something."""

    def __init__(self, groups: Iterable[str] = GROUPS) -> None:
        self.groups = tuple(groups)  # those that run; there is no UB fusion on some chips
        self._counts: dict[str, dict[str, list[int]]] = {group: {} for group in self.groups}

    def count(self, name: str, group: str, match: int, effect: int) -> None:
        """Add what one run of a pass did."""
        if match:
            counts = self._counts[group].setdefault(name, [0, 0])
            counts[0] += match
            counts[1] += effect

    def counts(self, name: str) -> tuple[int, int]:
        """(matches, effects) of a pass."""
        pair = next((group_counts[name] for group_counts in self._counts.values() if name in group_counts), [0, 0])
        return pair[0], pair[1]

    def content(self, session: int = 0, graph: int = 0) -> list[dict[str, Any]]:
        """What `fusion_result.json` holds: counters are text, passes that never matched are left out."""
        inner: dict[str, Any] = {}
        for group, key in ((GRAPH, "graph_fusion"), (UB, "ub_fusion")):
            if group not in self.groups:
                continue
            extra = {"repository_hit_times": "0"} if group == UB else {}
            inner[key] = {
                name: {"effect_times": str(effect), "match_times": str(match), **extra}
                for name, (match, effect) in sorted(self._counts[group].items())
            }
        return [{f"session_and_graph_id_{session}_{graph}": inner}]


def result_folder() -> Path:
    """Where the report goes: `$ASCEND_WORK_PATH/FE/<pid>`, or the working directory."""
    base = config.work_path()
    return base / "FE" / str(os.getpid()) if base is not None else Path.cwd()


def write_result(report: FusionReport, directory: Path) -> Path:
    """Write `fusion_result.json` into a folder, which is made where it is missing."""
    path = directory / _RESULT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report.content(), indent=4) + "\n", encoding="utf-8")
    except OSError as error:
        raise AtcError(
            "E21001",
            f"Failed to write the file [{path}]: {error.strerror}",
            "the folder is missing, full or not writable",
            "run atc in a folder that can be written, or set ASCEND_WORK_PATH to one",
        ) from error
    return path
