"""How processes with the device begin and end: arguments are shared, exits are silent, children see the same environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch
import torch.multiprocessing as mp


def fill(whole: torch.Tensor, part: torch.Tensor, same: torch.nn.Linear) -> None:
    assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    whole.fill_(4)
    part.fill_(9)
    with torch.no_grad():
        same.weight.zero_()


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_arguments_of_a_process_are_shared(method: str) -> None:
    x = torch.zeros(4, device="npu:1")
    model = torch.nn.Linear(2, 2).npu()
    one = mp.get_context(method).Process(target=fill, args=(x, x[2:], model))
    one.start()
    one.join(60)
    assert one.exitcode == 0
    assert x.tolist() == [4.0, 4.0, 9.0, 9.0] and not model.weight.any()


def run(program: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    return done


EXIT = """
import atexit, threading, time, torch, torch_npu
from torch.utils.data import DataLoader, TensorDataset
kept = [torch.ones(1 << 20).npu(), torch.nn.Linear(4, 4).npu(), torch.npu.Stream(), torch.npu.Event(enable_timing=True)]
kept[3].record()
shared = torch.ones(3).npu().share_memory_()
atexit.register(lambda: print(kept[0].sum().item(), (shared + 1).tolist()))
def hold():  # inside an operator, torch itself aborts at exit, with CPU tensors too
    x = torch.ones(64, 64).npu()
    while True:
        time.sleep(0.01)
def late_work():
    time.sleep(0.2)
    torch.mm(kept[0][:64].view(8, 8), torch.ones(8, 8).npu())
threading.Thread(target=hold, daemon=True).start()
threading.Thread(target=late_work).start()
loader = DataLoader(TensorDataset(torch.arange(8.0)), num_workers=1, persistent_workers=True, pin_memory=True)
batches = iter(loader)
next(batches)
class Late:
    x = torch.ones(2).npu()
    def __del__(self):
        self.x.add_(1)
late = Late()
late.me = late
"""


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_an_exit_with_everything_alive_is_silent() -> None:
    done = run(EXIT, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert done.stdout.split("\n")[0] == "1048576.0 [2.0, 2.0, 2.0]"
    assert done.stderr == ""


def test_an_exit_in_the_middle_of_an_error_has_one_traceback() -> None:
    done = run("import torch, torch_npu\nx = torch.ones(3).npu().share_memory_()\nraise ValueError('mine')", code=1)
    assert done.stderr.count("Traceback") == 1 and "ValueError: mine" in done.stderr and "ERR99999" in done.stderr


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow), (signal.SIGINT, -signal.SIGINT)],
)
def test_signals_end_a_busy_program(number: int, code: int) -> None:
    program = (  # a shell's background job, as the tests may be, would ignore SIGINT
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import torch, torch_npu\nx = torch.ones(128, 128).npu()\nprint('up', flush=True)\n"
        "while True: x = torch.mm(x, x).clamp(max=1)"
    )
    one = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert one.stdout is not None and one.stdout.readline() == "up\n"
        one.send_signal(number)
        _, told = one.communicate(timeout=20)
    finally:
        one.kill()
        one.wait()
    assert one.returncode == code
    assert told.count("Traceback") == (1 if number == signal.SIGINT else 0)


def test_children_inherit_no_autoload_setting_when_there_was_none() -> None:
    program = (
        "import os, subprocess\nos.environ.pop('TORCH_DEVICE_BACKEND_AUTOLOAD', None)\nimport torch, torch_npu\n"
        "print(subprocess.run(['printenv', 'TORCH_DEVICE_BACKEND_AUTOLOAD'], capture_output=True).stdout)"
    )
    assert run(program).stdout.strip() == "b''"
