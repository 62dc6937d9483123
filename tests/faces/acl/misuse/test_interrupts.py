"""Exceptions out of signal handlers (Ctrl-C, alarms) at any moment inside a call: the runtime stays usable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import acl, random, signal, sys, threading, time
rt = acl.rt
random.seed({seed})
assert acl.init() == 0 and rt.set_device(0) == 0
free_before = rt.get_mem_info(1)[0]
stream = rt.create_stream()[0]
host = rt.malloc_host(1 << 20)[0]
class Alarm({base}): pass
def handler(*_): raise Alarm
signal.signal(signal.SIGALRM, handler)
context = rt.get_context()[0]
beside = []
def other():  # a thread that is not interrupted must not notice anything
    rt.set_context(context)
    own = rt.create_stream()[0]
    while not stop.is_set():
        p, ret = rt.malloc(5000, 0)
        beside.append((ret, rt.memcpy_async(p, 5000, host, 5000, 1, own), rt.synchronize_stream_with_timeout(own, 10000), rt.free(p)))
stop = threading.Event()
thread = threading.Thread(target=other)
thread.start()
live, hits, wrong = [], 0, set()
end = time.monotonic() + 4
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-4, 2e-3))
        for _ in range(1000):
            p, ret = rt.malloc(random.choice((64, 5000, 300000, 3 << 20)), 0)
            codes = [ret, rt.memcpy_async(p, 64, host, 64, 1, stream), rt.synchronize_stream(stream), rt.free(p)]
            wrong |= set(codes) - {{0}}
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:
        hits += 1
signal.setitimer(signal.ITIMER_REAL, 0)
stop.set()
thread.join(30)
assert not thread.is_alive(), "the other thread hangs"
assert hits > 20, hits
assert not wrong, (wrong, acl.get_recent_err_msg())
assert all(not any(codes) for codes in beside), [codes for codes in beside if any(codes)][:3]
assert rt.synchronize_device() == 0
assert rt.reset_device(0) == 0 and acl.finalize() == 0
assert acl.init() == 0 and rt.set_device(0) == 0 and rt.malloc(1000, 0)[1] == 0
assert rt.reset_device(0) == 0 and rt.set_device(0) == 0 and rt.get_mem_info(1)[0] == free_before
print("ok", hits)
"""


NEWER = pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="Python 3.12 checks for signals at more places; a storm of exceptions can still block a stream there",
)


@pytest.mark.parametrize("base", ["KeyboardInterrupt", pytest.param("Exception", marks=NEWER)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_alarms(tmp_path: Path, base: str, seed: int) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SOFTNPU_RUNTIME_DIR": str(tmp_path / "run")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seed=seed, base=base)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0 and done.stdout.startswith("ok"), done.stderr[-3000:]
