"""The documentation tells the truth: its programs run, its links lead somewhere, its tables agree with the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT, SOURCE

PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
WITH_PROGRAMS = (
    "README.md",
    "README.zh.md",
    "docs/quickstart.md",
    "docs/howto.md",
    "docs/howto_models.md",
    "docs/howto_media.md",
    "docs/howto_torch.md",
    "docs/howto_operators_torch.md",
    "docs/howto_dataflow.md",
    "docs/howto_dataflow_watch.md",
)
TIME_LIMIT_S = 60

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_VARIABLE = re.compile(r"[\"'`]((?:SOFTNPU|ASCEND)_[A-Z0-9_]+)[\"'`]")
_COUNTS = re.compile(r"^\| \*{0,2}\[?([a-z.]+)[^|]*\| \*{0,2}(\d+)\*{0,2} \| \*{0,2}(\d+)\*{0,2} \|", re.MULTILINE)


def _programs() -> Iterator[Any]:
    for page in WITH_PROGRAMS:
        for number, text in enumerate(_BLOCK.findall((ROOT / page).read_text(encoding="utf-8")), 1):
            yield pytest.param(text, id=f"{page}-{number}")


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {
        name: value for name, value in os.environ.items() if not name.startswith(("SOFTNPU_", "ASCEND_", "SLOG_"))
    }
    settings |= {"HOME": str(folder), "SOFTNPU_RUNTIME_DIR": str(folder / "run"), "PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=settings, capture_output=True, text=True, timeout=TIME_LIMIT_S
    )


@pytest.mark.parametrize("program", list(_programs()))
def test_program_runs(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "import pytest" in program else []
    done = _run([*tests, "program.py"], tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get on GitHub."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link}: there is no {target.relative_to(ROOT)}"
        if anchor:
            assert anchor in _anchors(target), f"{link}: there is no such heading"


ENDINGS = ("py", "cpp", "h", "toml", "md", "sh")
_PATH = re.compile(rf"`([\w.-]+(?:/[\w.-]+)+\.(?:{'|'.join(ENDINGS)}))(?::[^`]*)?`")
INSIDE = [page for page in PAGES if page.is_relative_to(ROOT / "docs" / "architecture") or page.parent == ROOT / "docs"]


def _files() -> set[str]:
    """Every file of the repository, as a path that begins with a slash."""
    trees = [ROOT / name for name in ("src", "native", "tests", "docs", "scripts", "examples", "benchmarks")]
    return {f"/{path.relative_to(ROOT)}" for tree in trees for path in tree.rglob("*.*")}


@pytest.mark.parametrize("page", INSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """By their path from anywhere: `memory/reach.py` is enough."""
    files = _files()
    named = {name.removeprefix("../") for name in _PATH.findall(page.read_text(encoding="utf-8"))}
    ours = {name for name in named if not name.startswith(("torch_npu/csrc/", "$", "~"))}
    gone = sorted(
        name for name in ours - {"arithmetic/cube_sum.py"} if not any(file.endswith(f"/{name}") for file in files)
    )
    assert not gone, f"{page.relative_to(ROOT)} names {gone}"


def test_every_variable_is_documented() -> None:
    documented = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in (SOURCE / "softnpu").rglob("*.py")
        if path.parent.name != "_generated"
    )
    missing = sorted({name for name in _VARIABLE.findall(code) if f"`{name}`" not in documented})
    assert not missing, f"add rows to spec/environment.toml and run `make docs`: {missing}"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_counts_agree_with_the_support_page(page: str) -> None:
    support = {
        module: (done, all_)
        for module, done, all_ in _COUNTS.findall((ROOT / "docs/support/README.md").read_text(encoding="utf-8"))
    }
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = {module: (done, all_) for module, done, all_ in _COUNTS.findall(text)}
    assert shown.keys() & support.keys() >= {"acl", "acl.rt", "acl.util", "acl.mdl"}
    assert all(support.get(module, counts) == counts for module, counts in shown.items()), f"{shown} is not {support}"
    assert "| {} | {} |".format(*support["all"]) in text, f"the sum is {support['all']}"


def test_import_is_as_light_as_the_documentation_says(tmp_path: Path) -> None:
    program = "import sys, acl; acl.init(); acl.rt.set_device(0); print(*{'numpy', 'rich'} & set(sys.modules)); acl.finalize()"
    done = _run(["-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
