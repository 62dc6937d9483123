"""Fixtures that every room shares: a runtime of one's own, with its files below the test's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import acl
from softnpu.runtime.process import reset
from tests.paths import ROOT

# Programs that a test starts may import `tests.…`, wherever they run.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process object before and after: the test calls acl.init itself."""
    for name in list(os.environ):
        if name.startswith(("SOFTNPU_", "ASCEND_", "SLOG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOFTNPU_RUNTIME_DIR", str(tmp_path))
    reset()
    yield
    reset()


@pytest.fixture
def runtime(fresh: None) -> Iterator[None]:
    """acl.init is done and device 0 is set; acl.finalize follows the test unless the test called it."""
    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    yield
    assert acl.finalize() in (0, 100037)
