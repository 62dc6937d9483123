"""Opening a model file."""

from __future__ import annotations

import mmap
from pathlib import Path

from softnpu.compiler.errors import AtcError


def map_file(path: Path) -> memoryview:
    """The bytes of a file, mapped."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            if size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise AtcError(
            "E10410",
            f"The file [{path}] cannot be opened: {error.strerror}",
            "the path is wrong or not readable",
            "check the path",
        ) from error
