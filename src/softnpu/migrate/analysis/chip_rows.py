"""What the adapter of a chip cannot run, from the rows of `spec/torch/adapter.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.migrate.errors import MigrateError
from softnpu.spec._generated.chips import CHIPS
from softnpu.spec._generated.torch_adapter import ROWS

_ALIASES = {"Ascend910": "Ascend910A"}


@dataclass(frozen=True)
class Lack:
    """Operators that are missing, or that refuse data types; `mixed`: tensors of different types are refused."""

    operators: frozenset[str]
    refused: frozenset[str]
    reason: str
    spared: frozenset[str] = frozenset()
    mixed: bool = False

    def applies(self, operator: str, dtypes: Sequence[str]) -> bool:
        """Whether a call of `aten::name.overload` with these data types fails."""
        name = operator.removeprefix("aten::").partition(".")[0]
        names = {name, name.removesuffix("_")}
        if "*" in self.operators:
            if names & self.spared:
                return False
        elif not names & self.operators:
            return False
        if self.mixed:
            return len(set(dtypes)) > 1
        return not self.refused or bool(self.refused & set(dtypes))


def lacks(soc: str) -> list[Lack]:
    """The rows that hold for a chip."""
    chip = CHIPS.get(_ALIASES.get(soc, soc))
    if chip is None:
        raise MigrateError(f"The chip {soc} after --soc is not known; known are {', '.join(sorted(CHIPS))}.")
    generations = {row["name"] for row in ROWS["generation"] if chip["family"] in row["families"]}
    spared = frozenset(ROWS["moving"]["operators"])
    return [
        _lack(kind, row, spared)
        for kind in ("missing", "dtypes", "one_dtype")
        for row in ROWS[kind]
        if generations & set(row["generations"]) and not chip.get(row.get("chips_without", ""), False)
    ]


def _lack(kind: str, row: dict[str, Any], spared: frozenset[str]) -> Lack:
    refused = frozenset(row.get("refused", ()))
    reason = f"{row['title']} [{row['source']}]"
    return Lack(frozenset(row["operators"]), refused, reason, spared, kind == "one_dtype")
