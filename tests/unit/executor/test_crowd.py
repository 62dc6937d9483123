"""Sharing the cores: how many threads a run gets while others run."""

from __future__ import annotations

import threading

import pytest

from softnpu.executor import crowd


@pytest.mark.parametrize("total", [1, 2, 3, 4, 6, 8, 16, 64])
@pytest.mark.parametrize("running", [1, 2, 3, 4, 7, 8, 100])
def test_shares(total: int, running: int) -> None:
    """The total halved as often as needed: few different numbers, since each has sessions of its own."""
    halves = [total >> times for times in range(8)]
    assert crowd.share(total, running) == next((threads for threads in halves if 0 < threads * running <= total), 1)


def test_a_run_alone_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "compute_threads", lambda: 8)
    monkeypatch.setattr(crowd, "_running", 0)
    assert crowd.enter() == 8
    assert crowd.enter() == 4
    assert crowd.enter() == 2
    crowd.leave()
    crowd.leave()
    assert crowd.enter() == 4
    crowd.leave()
    crowd.leave()
    assert crowd.enter() == 8
    crowd.leave()
    assert crowd._running == 0


def test_threads_count_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "compute_threads", lambda: 4)
    monkeypatch.setattr(crowd, "_running", 0)

    def work() -> None:
        for _ in range(500):
            assert 1 <= crowd.enter() <= 4
            crowd.leave()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert crowd._running == 0
