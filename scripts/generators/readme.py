"""The numbers in the two READMEs: functions of each module, between the two marks, and those of sentences, from support pages."""

from __future__ import annotations

import re
from pathlib import Path

from generators import api
from generators.common import ROOT

_COUNTS = re.compile(r"(?<=<!-- counts: written by `make docs` -->\n).*?(?=<!-- end of counts -->)", re.DOTALL)
_LINE = re.compile(r"^\| (?P<name>[^|]+) \| \d+ \| \d+ \| (?P<words>.*) \|$")
# Behind a link to a support page, or in its text: which numbers of the page's own sentence stand there.
_OPTIONS = re.compile(r"\[\d+( [^\]]*)\](\(docs/support/atc_options\.md\)[^\d\n]{1,3})\d+")
_SHARE = re.compile(r"\[[\d.]+ %\]\(docs/support/(?P<page>onnx_suite|torch_operators)\.md\)")
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


def _sentences(text: str) -> str:
    """The numbers outside of the table."""

    def page(name: str) -> str:
        return (ROOT / "docs/support" / f"{name}.md").read_text(encoding="utf-8")

    def share(link: re.Match[str]) -> str:
        passed, cases = re.search(r"(\d+) of (\d+)\*{0,2} cases pass", page(link["page"])).groups()  # type: ignore[union-attr]
        return f"[{100 * int(passed) / int(cases):.1f} %](docs/support/{link['page']}.md)"

    options = re.search(r"All (\d+) options .*?; (\d+) of them", page("atc_options"))
    assert options, "docs/support/atc_options.md has no sentence with its counts"
    text = _OPTIONS.sub(rf"[{options[1]}\1]\g<2>{options[2]}", text)
    return _SHARE.sub(share, text)


def pages() -> dict[Path, str]:
    """What people read."""
    counts = {module: (done, declared) for module, _, done, declared in api.counts()}
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", ROOT / "README.zh.md")}
    return {
        path: _sentences(
            _COUNTS.sub(lambda table: "\n".join(_line(line, counts) for line in table[0].split("\n")), text)
        )
        for path, text in texts.items()
    }
