"""The numbers in the two READMEs: how many functions of each module there are, between the two marks."""

from __future__ import annotations

import re
from pathlib import Path

from generators import api
from generators.common import ROOT

_COUNTS = re.compile(r"(?<=<!-- counts: written by `make docs` -->\n).*?(?=<!-- end of counts -->)", re.DOTALL)
_LINE = re.compile(r"^\| (?P<name>[^|]+) \| \d+ \| \d+ \| (?P<words>.*) \|$")
_MODULE = re.compile(r"\[(acl[.\w]*)\]")


def _line(line: str, counts: dict[str, tuple[int, int]]) -> str:
    """A line of the table with its numbers; the line without a link has those of all modules."""
    parts = _LINE.match(line)
    if parts is None:
        return line
    name, words = parts["name"], parts["words"]
    module = _MODULE.match(name)
    done, declared = counts[module[1]] if module else map(sum, zip(*counts.values(), strict=True))
    if module and module[1] == "acl.op":
        from softnpu import ops

        words = re.sub(r"\d+", str(len(ops.types())), words)
    return f"| {name} | {done} | {declared} | {words} |"


def pages() -> dict[Path, str]:
    """What people read."""
    counts = {module: (done, declared) for module, _, done, declared in api.counts()}
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "README.zh.md")}
    return {
        path: _COUNTS.sub(lambda table: "\n".join(_line(line, counts) for line in table[0].split("\n")), text)
        for path, text in texts.items()
    }
