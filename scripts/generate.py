"""Write everything that is made from the rows in `src/softnpu/spec`: tables, constants, stubs, support and reference pages.

python scripts/generate.py            write
python scripts/generate.py --check    exit 1 and name the files that are out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from generators import (
    api,
    atc,
    chips,
    constants,
    environment,
    flow,
    media,
    migrate,
    onnx_suite,
    operators,
    readme,
    torch,
)
from generators.common import MARK, ROOT, TABLES

# Tables before pages, since pages are made with the code that reads the tables; `api` after the other tables, since it
# imports the bodies of `acl`.
WITH_TABLES = (constants, chips, atc, media, migrate, torch, environment, api)
WITH_PAGES = (api, constants, chips, atc, media, torch, environment, flow, operators, onnx_suite, readme)


def outputs() -> Iterator[tuple[Path, str]]:
    """Every generated file and its text, made when it is asked for: by then what it needs has been written."""
    for folder in (TABLES, TABLES / "api", TABLES / "migrate"):
        yield folder / "__init__.py", f'{MARK}\n"""Rows of `spec/` as Python tables, for fast loading."""\n'
    for part in WITH_TABLES:
        yield from part.tables().items()
    for part in WITH_PAGES:
        yield from part.pages().items()


def main() -> int:
    """Write, or compare with what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when something is out of date")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "src"))
    stale = []
    for path, text in outputs():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{'out of date' if check else 'written'}: {path}")
    if check and stale:
        print("run `make docs` and commit the result")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
