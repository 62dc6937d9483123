"""The diff report: one HTML file that needs nothing else, with a side-by-side view of each changed file."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from softnpu.migrate.reporting.results import FileResult, Summary

_CONTEXT = 3
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_OPEN_AT_ONCE = 20  # with more files they start closed

_STYLE = """
:root{--line:#d0d7de;--soft:#f6f8fa;--del:#ffebe9;--delw:#ffc1ba;--add:#e6ffec;--addw:#abf2bc;--text:#1f2328;--dim:#59636e;--back:#fff}
@media(prefers-color-scheme:dark){:root{--line:#3d444d;--soft:#151b23;--del:#3c1618;--delw:#792e2f;--add:#12321c;--addw:#1f6f35;--text:#e6edf3;--dim:#9198a1;--back:#0d1117}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);margin:2rem auto;max-width:1500px;padding:0 1rem}
h1{font-size:1.5rem}a{color:#0969da;text-decoration:none}a:hover{text-decoration:underline}
table{border-collapse:collapse}.list{width:100%}.list td,.list th{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}
.list .n{text-align:right;white-space:nowrap}details{border:1px solid var(--line);border-radius:6px;margin:1rem 0}
summary{background:var(--soft);padding:.5rem .8rem;cursor:pointer;font-weight:600;position:sticky;top:0}summary small{font-weight:400;color:var(--dim)}
.notes{margin:.5rem 1rem}.diff{width:100%;table-layout:fixed;font:12px/1.45 ui-monospace,Consolas,monospace}
.diff .no{width:4.2em;text-align:right;padding:0 .6em;color:var(--dim);user-select:none;vertical-align:top}
.diff .code{white-space:pre-wrap;overflow-wrap:anywhere;padding-right:.5em;vertical-align:top}
.diff .del{background:var(--del)}.diff .add{background:var(--add)}.del b{background:var(--delw);font-weight:400}.add b{background:var(--addw);font-weight:400}
.diff .gap td{background:var(--soft);color:var(--dim);text-align:center}tr:target td{outline:2px solid #bf8700;outline-offset:-2px}
.warn{color:#9a6700}.bad{color:#cf222e}code{font:.92em ui-monospace,Consolas,monospace}
"""


def report(summary: Summary) -> Iterator[str]:
    """The page, in pieces."""
    changed = [file for file in summary.files if file.changed]
    title = f"Migration of {summary.name}"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
    yield f"<p>{escape(summary.sentence())}</p>"
    yield from _problems(summary)
    yield from _contents(changed)
    others = [file for file in summary.files if file.unsupported and not file.changed]
    if others:
        count = sum(len(file.unsupported) for file in others)
        yield f"<p>{count} more uses of unsupported interfaces, in {len(others)} files that did not change, are in unsupported_op.csv.</p>"
    for number, result in enumerate(changed):
        yield from _file(number, result, len(changed) <= _OPEN_AT_ONCE)
    yield "</body></html>\n"


def _problems(summary: Summary) -> Iterator[str]:
    failed = [file for file in summary.files if file.error]
    if failed:
        yield '<h2 class="bad">Not converted</h2><ul>'
        for file in failed:
            yield f"<li><code>{escape(file.path)}</code>: {escape(file.error)}</li>"
        yield "</ul>"
    if summary.warnings:
        yield '<h2 class="warn">To look at</h2><ul>'
        for path, text in summary.warnings:
            yield f"<li><code>{escape(path)}</code>: {escape(text)}</li>"
        yield "</ul>"


def _contents(changed: Sequence[FileResult]) -> Iterator[str]:
    yield '<h2>Changed files</h2><table class="list"><tr><th>File</th><th class="n">Changes</th><th class="n">Unsupported</th></tr>'
    for number, file in enumerate(changed):
        link = f'<a href="#f{number}"><code>{escape(file.path)}</code></a>'
        yield f'<tr><td>{link}</td><td class="n">{len(file.changes)}</td><td class="n">{len(file.unsupported) or ""}</td></tr>'
    yield "</table>"


def _file(number: int, result: FileResult, is_open: bool) -> Iterator[str]:
    count = f"{len(result.changes)} change{'s' * (len(result.changes) != 1)}"
    yield f'<details id="f{number}"{" open" * is_open}><summary>{escape(result.path)} <small>{count}</small></summary><ul class="notes">'
    for change in result.changes:
        link = f'<a href="#f{number}l{change.start_line}">line {change.start_line}</a>'
        yield f"<li>{link} {change.operation}: {escape(change.message)}</li>"
    for finding in result.unsupported:
        place = f'<a href="#f{number}l{finding.start_line}">line {finding.start_line}</a>'
        yield f'<li class="warn">{place} <code>{escape(finding.name)}</code>: {escape(finding.row.tip)}</li>'
    yield "</ul>"
    wanted = [finding.start_line for finding in result.unsupported]
    yield from _diff(number, _lines(result.before), _lines(result.after), wanted)
    yield "</details>"


def _lines(text: str) -> list[str]:
    """Lines as Python counts them: form feeds and the like do not end one."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _diff(number: int, old: list[str], new: list[str], wanted: Iterable[int]) -> Iterator[str]:
    """The changed lines and the `wanted` ones (counted from 1), which links lead to, each with its surroundings."""
    yield '<table class="diff"><colgroup><col style="width:4.2em"><col><col style="width:4.2em"><col></colgroup>'
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    shown = _shown(blocks, wanted)
    for kind, a0, a1, b0, b1 in blocks:
        if kind != "equal":
            yield from _rows(number, kind, list(enumerate(old[a0:a1], a0)), list(enumerate(new[b0:b1], b0)))
            continue
        for visible, run in itertools.groupby(range(a0, a1), shown.__contains__):
            lines = list(run)
            if visible:
                yield from _rows(
                    number, kind, [(line, old[line]) for line in lines], [(line - a0 + b0, old[line]) for line in lines]
                )
            else:
                yield f'<tr class="gap"><td colspan="4">{len(lines)} equal lines</td></tr>'
    yield "</table>"


def _shown(blocks: Sequence[tuple[str, int, int, int, int]], wanted: Iterable[int]) -> set[int]:
    spans = [(a0, a1) for kind, a0, a1, _, _ in blocks if kind != "equal"] + [(line - 1, line) for line in wanted]
    return {line for start, end in spans for line in range(start - _CONTEXT, end + _CONTEXT)}


def _rows(number: int, kind: str, old: list[tuple[int, str]], new: list[tuple[int, str]]) -> Iterator[str]:
    for index in range(max(len(old), len(new))):
        left = old[index] if index < len(old) else None
        right = new[index] if index < len(new) else None
        texts = (escape(left[1]) if left else "", escape(right[1]) if right else "")
        if kind == "replace" and left and right:
            texts = _mark(left[1], right[1])
        classes = ("", "") if kind == "equal" else (" del" if left else "", " add" if right else "")
        anchor = f' id="f{number}l{left[0] + 1}"' if left else ""
        cells = "".join(
            f'<td class="no{style}">{side[0] + 1 if side else ""}</td><td class="code{style}">{text}</td>'
            for side, text, style in zip((left, right), texts, classes, strict=True)
        )
        yield f"<tr{anchor}>{cells}</tr>"


def _mark(old: str, new: str) -> tuple[str, str]:
    """Both lines with the differing words marked."""
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    left, right = [], []
    for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        before, after = escape("".join(a[a0:a1])), escape("".join(b[b0:b1]))
        left.append(f"<b>{before}</b>" if kind != "equal" and before else before)
        right.append(f"<b>{after}</b>" if kind != "equal" and after else after)
    return "".join(left), "".join(right)
