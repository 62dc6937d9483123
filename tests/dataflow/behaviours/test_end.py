"""What is left when a program ends, however it ends."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest

from tests.dataflow.engine_support import children, gone
from tests.waiting import eventually

PROGRAM = """
import os, sys, time
import dataflow as df

@df.pyflow
def who(a):
    if a:
        time.sleep(60)
    return os.getpid()

df.init({})
data = df.FlowData()
graph = df.FlowGraph([who.fnode()(data)])
graph.feed({data: 0})
print(graph.fetch()[0][0], flush=True)
graph.feed({data: 1})  # a call that never ends
sys.stdin.readline()
if sys.argv[1] == "exit":
    sys.exit(3)
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["exit", signal.SIGKILL, signal.SIGTERM])
def test_no_process_and_no_file_stays_behind_however_a_program_ends(tmp_path: pathlib.Path, way) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    pipe = subprocess.PIPE
    command = [sys.executable, str(program), str(way)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as started:
        try:
            worker = int(started.stdout.readline())
            processes = children(started.pid)
            assert processes and worker in {each for child in processes for each in children(child)}
            if way == "exit":
                started.stdin.write("go on\n")
                started.stdin.flush()
            else:
                started.send_signal(way)
            assert started.wait(10) == (3 if way == "exit" else -way)
            assert eventually(lambda: all(gone(each) for each in (worker, *processes)))
        finally:
            started.kill()
