"""Numbers as people read them, and how wide text is."""

from __future__ import annotations

import unicodedata

_NARROW = set("iljtfrI.,:;|!'()[]{} ")
_WIDE = set("mwMW@%—…×")


def duration(seconds: float) -> str:
    """Three figures and a unit."""
    if seconds <= 0:
        return "0"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            value = seconds / size
            if unit == "s" and value >= 120:
                return clock(value)
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def clock(seconds: float) -> str:
    """Minutes and hours."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def size(count: int | None) -> str:
    """Bytes; a dash where nobody knows."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}"


def rate(per_second: float) -> str:
    """How often in a second."""
    return f"{per_second:,.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"


def share(value: float | None) -> str:
    """Per cent; a dash where it means nothing."""
    return "-" if value is None else f"{value:.0%}"


def columns(text: str) -> int:
    """Places in a terminal."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def width(text: str, points: float) -> float:
    """About how wide a proportional font sets it; a little too much rather than too little."""
    total = 0.0
    for each in text:
        if unicodedata.east_asian_width(each) in "WF":
            total += 1.05
        elif each in _NARROW:
            total += 0.34
        elif each in _WIDE:
            total += 0.92
        else:
            total += 0.70 if each.isupper() else 0.58
    return total * points


def shortened(text: str, most: float, points: float) -> str:
    """Beginning and end of a text that is too long: names often differ at their end."""
    if width(text, points) <= most:
        return text
    head, tail = text, text
    while len(head) + len(tail) > 2 and width(f"{head}…{tail}", points) > most:
        if len(head) > 2 * len(tail) or len(tail) <= 1:
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"
