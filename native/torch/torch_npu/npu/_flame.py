"""A flame graph as SVG: boxes whose width is the bytes below them, from lines such as "stream_0;active_allocated;file:3:f 4096"."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

_WIDTH, _ROW = 1200, 18
_COLOURS = ("#e8745a", "#e89a5a", "#e8bd5a", "#c8c95f", "#8fbf6f")
_CHARACTER = 7  # pixels


@dataclass
class _Box:
    """A name in a stack, the bytes of all lines through it, what lies under it."""

    size: int = 0
    inner: dict[str, _Box] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((frame.depth() for frame in self.inner.values()), default=0)


def _tree(lines: str) -> _Box:
    root = _Box()
    for line in lines.splitlines():
        path, _, size = line.rpartition(" ")
        box = root
        box.size += int(size)
        for name in path.split(";"):
            box = box.inner.setdefault(name, _Box())
            box.size += int(size)
    return root


def _draw(name: str, box: _Box, left: float, level: int, scale: float, out: list[str]) -> None:
    width = box.size * scale
    if width < 0.1:
        return
    title, top = escape(f"{name}: {box.size} bytes"), level * _ROW
    out.append(
        f'<g><title>{title}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 1}" '
        f'fill="{_COLOURS[level % len(_COLOURS)]}"/>'
    )
    letters = int(width / _CHARACTER)
    if letters > 2:
        out.append(f'<text x="{left + 3:.1f}" y="{top + _ROW - 5}">{escape(name[:letters])}</text>')
    out.append("</g>")
    for inner_name, inner in sorted(box.inner.items()):
        _draw(inner_name, inner, left, level + 1, scale, out)
        left += inner.size * scale


def svg(lines: str) -> str:
    """The picture."""
    root = _tree(lines)
    height = root.depth() * _ROW
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="monospace" font-size="12">'
    ]
    _draw("all", root, 0.0, 0, _WIDTH / max(root.size, 1), out)
    return "\n".join([*out, "</svg>", ""])
