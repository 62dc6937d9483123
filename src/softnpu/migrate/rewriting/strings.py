"""Which parts of a string constant change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from softnpu.migrate.rules.rows import StringRow

_DEVICE = re.compile("cuda|nccl|NCCL|gpu:")


def may_hold(text: str) -> bool:
    """Whether a text holds a word that every row of strings needs."""
    return _DEVICE.search(text) is not None


def rewrite_string(
    text: str, rows: Sequence[StringRow], whole: bool = True, open_end: bool = False
) -> Iterator[tuple[int, str, str]]:
    """Place, old and new text of each replacement in the body of a string.

    `whole` is False for the parts of an f-string, where "cuda" alone may be half a word; `open_end` says that a value follows.
    """
    if not may_hold(text):
        return
    for row in rows:
        if not whole and row.pattern.pattern.startswith(r"\A"):
            continue
        for match in row.pattern.finditer(text):
            if match.end() == len(text) and not (whole or open_end) and match[0].endswith(":"):
                continue
            yield match.start(), match[0], row.new
