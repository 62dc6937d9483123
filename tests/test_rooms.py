"""Every room has a README at its door, and it is true: it names the files that are there and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import NATIVE, ROOT, SOURCE

FEW = 3  # a folder with fewer modules may be told by its own docstrings
SPOKEN = re.compile(r"`([^`\n]+)`")
OPERATORS = (
    SOURCE / "softnpu" / "ops"
)  # a file there is found by the operator's name; READMEs tell families and shared bodies


def folders() -> list[Path]:
    """The packages of both distributions that hold several modules of ours, generated ones aside."""
    packages = (SOURCE / "acl", SOURCE / "dataflow", SOURCE / "softnpu", NATIVE / "torch_npu", NATIVE / "apex")
    found = {init.parent for package in packages for init in package.rglob("__init__.py")} | {
        path for path in (NATIVE / "csrc").iterdir() if path.is_dir()
    }
    return sorted(path for path in found if "_generated" not in path.parts and len(modules(path)) >= FEW)


def modules(folder: Path) -> list[str]:
    """The names of its files, without endings."""
    names = {path.stem for ending in ("*.py", "*.cpp", "*.h") for path in folder.glob(ending)}
    if OPERATORS in folder.parents and folder.name != "common":
        names = {name for name in names if name.startswith("_")}
    return sorted(names - {"__init__", "__main__"})


def readme_of(folder: Path) -> Path:
    """The README of the folder, or the nearest above."""
    while not (folder / "README.md").is_file():
        folder = folder.parent
    return folder / "README.md"


def spoken(text: str) -> set[str]:
    """Every word between backquotes, with braces written out: `venc_{a,b}.py` is two names."""
    words: set[str] = set()
    for span in SPOKEN.findall(text):
        for word in re.split(r"[\s,]+(?![^{]*})", span):
            match = re.match(r"(.*)\{([^}]*)\}(.*)", word)
            words |= {match[1] + part + match[3] for part in match[2].split(",")} if match else {word}
    return words


@pytest.mark.parametrize("folder", folders(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_tells_what_is_in_it(folder: Path) -> None:
    readme = readme_of(folder)
    assert readme.parent not in (ROOT, SOURCE, ROOT / "native"), (
        f"{folder} has no README on the way up to its distribution"
    )
    told = {re.sub(r"\.(py|cpp|h|\*)$", "", word.rpartition("/")[2]) for word in spoken(readme.read_text("utf-8"))}
    missing = [name for name in modules(folder) if name not in told and name.removeprefix("_") not in told]
    assert not missing, f"{readme.relative_to(ROOT)} does not name {missing} of {folder.relative_to(ROOT)}"


ROOMS = sorted(
    path
    for tree in (SOURCE, ROOT / "native", ROOT / "tests", ROOT / "benchmarks", ROOT / "scripts")
    for path in tree.rglob("README.md")
)


@pytest.mark.parametrize("readme", ROOMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_names_no_file_that_is_not_there(readme: Path) -> None:
    names = {word for word in spoken(readme.read_text("utf-8")) if re.fullmatch(r"[\w/]*\w\.(py|cpp|h|toml)", word)}
    gone = [name for name in sorted(names) if not exists(readme, name)]
    assert not gone, f"{readme.relative_to(ROOT)} names {gone}"


def exists(readme: Path, name: str) -> bool:
    """A file below the README's folder, or at that path from a place above it."""
    below = readme.parent if not name.endswith(".toml") else SOURCE / "softnpu" / "spec"
    if any(True for _ in below.rglob(name)) or any(True for _ in readme.parent.rglob(name)):
        return True
    places = [readme.parent, *readme.parents, SOURCE, SOURCE / "softnpu", NATIVE]
    return any((place / name).exists() for place in places)
