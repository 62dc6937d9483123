"""Sizes and counts: rounding, words for people, what the machine has."""

from __future__ import annotations

import os


def align_up(size: int, step: int) -> int:
    """Round up to a multiple of `step`."""
    return (size + step - 1) // step * step


def human(size: int) -> str:
    """A size for people: `1.5 GiB`."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{size} bytes" if unit == "bytes" else f"{value:.4g} {unit}"
        value /= 1024
    return f"{size} bytes"


def plural(count: int, word: str) -> str:
    """`1 allocation`, `2 allocations`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def machine_memory() -> int:
    """Bytes of memory that this process may hope for: the machine's, or its container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
