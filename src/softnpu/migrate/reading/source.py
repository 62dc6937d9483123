"""Reading and writing Python sources so that encoding, byte order mark and line endings survive."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Source:
    """A Python file as text, with what is needed to write it back."""

    text: str
    encoding: str
    bom: bool

    @classmethod
    def read(cls, path: Path) -> Source:
        """Raises OSError, SyntaxError (unknown encoding) or UnicodeDecodeError."""
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = data.startswith(_BOM)
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        return cls((data[len(_BOM) :] if bom else data).decode(encoding), encoding, bom)

    @property
    def newline(self) -> str:
        """The line ending that the file uses first."""
        head = self.text.partition("\n")[0]
        return "\r\n" if head.endswith("\r") else "\n"

    def encode(self, text: str) -> bytes:
        """Another text in the manner of this file."""
        return (_BOM if self.bom else b"") + text.encode(self.encoding)
