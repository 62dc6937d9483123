"""torch on npu against the same program on torch's cpu device, in one run with two threads: training steps, inference, the cost
of a call, memory and import."""

from __future__ import annotations

import copy
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch_npu  # noqa: F401
from _tools import Result, interleaved, loop
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.torch import networks  # noqa: E402

THREADS = 2
_PEAK = r"""
import re, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import torch, torch_npu
from tests.torch import networks
torch.set_num_threads(2)
device = {device!r}
model = networks.{model}().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = (tensor.to(device) for tensor in {batch}())
for _ in range(2):
    optimizer.zero_grad()
    networks.loss_of(model(inputs), targets).backward()
    optimizer.step()
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""


def _step(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Callable[[], None]:
    """A training step on the device of the model."""
    device = next(model.parameters()).device
    inputs, targets = (tensor.to(device) for tensor in batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def run() -> None:
        optimizer.zero_grad()
        networks.loss_of(model(inputs), targets).backward()
        optimizer.step()

    return run


def _infer(model: nn.Module, inputs: Tensor) -> Callable[[], None]:
    moved = inputs.to(next(model.parameters()).device)

    def run() -> None:
        with torch.inference_mode():
            model(moved)

    return run


def _compare(name: str, npu: Callable[[], None], cpu: Callable[[], None], rounds: int) -> Result:
    npu()
    cpu()
    ours, peer = interleaved(npu, cpu, rounds=rounds)
    ratio = peer / ours
    return Result(name, f"{ours * 1e3:.1f} ms", f"cpu {peer * 1e3:.1f} ms", f"{ratio:.3f}", "≥ 0.97", ratio >= 0.97)


def _models() -> list[Result]:
    torch.manual_seed(0)
    resnet, bert = networks.resnet50(), networks.bert_base()
    rows = []
    pairs = [(copy.deepcopy(resnet).npu(), resnet), (copy.deepcopy(bert).npu(), bert)]
    batch = networks.pictures(16, 224, 1000)()
    rows.append(_compare("ResNet-50 training step, batch 16", *(_step(model, batch) for model in pairs[0]), rounds=5))
    for count in (1, 8):
        images = batch[0][:count]
        both = (_infer(model.eval(), images) for model in pairs[0])
        rows.append(_compare(f"ResNet-50 inference, batch {count}", *both, rounds=15 if count == 1 else 9))
    sentences = networks.words(8, 128, 30522, 2)()
    rows.append(
        _compare("BERT-base training step, 8 x 128", *(_step(model, sentences) for model in pairs[1]), rounds=5)
    )
    return rows


def _call(name: str, make: Callable[[str], Callable[[], object]], wish: float, count: int = 20000) -> Result:
    """Microseconds of a call on a tiny tensor, in short turns: the median difference is the cost of the device."""
    npu, cpu = (loop(make(device), count // 20) for device in ("npu", "cpu"))
    differences, ours, peers = [], [], []
    for _ in range(20):
        mine, theirs = (seconds / (count // 20) * 1e6 for seconds in interleaved(npu, cpu, rounds=3))
        ours.append(mine)
        peers.append(theirs)
        differences.append(mine - theirs)
    more = statistics.median(differences)
    return Result(
        f"{name} on a tiny tensor",
        f"{statistics.median(ours):.2f} µs",
        f"cpu {statistics.median(peers):.2f} µs",
        f"{more:+.2f} µs",
        f"≤ {wish} µs more",
        more <= wish,
    )


def _calls() -> list[Result]:
    def add(device: str) -> Callable[[], object]:
        x, y = torch.ones(4, device=device), torch.ones(4, device=device)
        return lambda: torch.add(x, y)

    def relu(device: str) -> Callable[[], object]:
        x = torch.ones(4, device=device)
        return lambda: torch.relu_(x)

    def mm(device: str) -> Callable[[], object]:
        x = torch.ones(4, 4, device=device)
        return lambda: torch.mm(x, x)

    def view(device: str) -> Callable[[], object]:
        x = torch.ones(4, 4, device=device)
        return lambda: x.view(16)

    with torch.no_grad():
        rows = [_call(name, make, 1.0) for name, make in (("add", add), ("relu_", relu), ("mm", mm))]
        return [*rows, _call("view", view, 0.5)]


def _peak(model: str, batch: str) -> Result:
    """Peak resident memory of two training steps, each device in its own process. VmHWM begins anew with the program, which
    getrusage's number does not: it holds what the parent had when it forked."""
    peaks = {}
    for device in ("npu", "cpu"):
        code = _PEAK.format(folder=str(ROOT), device=device, model=model, batch=batch)
        peaks[device] = int(_python(code)) / 1024
    more = peaks["npu"] / peaks["cpu"] - 1
    return Result(
        f"peak memory, {model} training",
        f"{peaks['npu']:.0f} MiB",
        f"cpu {peaks['cpu']:.0f} MiB",
        f"{more:+.1%}",
        "≤ 3 % more",
        more <= 0.03,
    )


def _import() -> Result:
    """`import torch, torch_npu` against `import torch`, in fresh interpreters."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    ours, peers = [], []
    for _ in range(5):
        peers.append(float(_python(code.format("torch"))))
        ours.append(float(_python(code.format("torch, torch_npu"))))
    more = statistics.median(ours) - statistics.median(peers)
    return Result(
        "import torch_npu",
        f"{statistics.median(ours):.2f} s",
        f"import torch {statistics.median(peers):.2f} s",
        f"{more:+.2f} s",
        "≤ 0.3 s more",
        more <= 0.3,
    )


def _python(code: str) -> str:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip().splitlines()[-1]


def results() -> list[Result]:
    """All rows."""
    torch.set_num_threads(THREADS)
    rows = _calls()
    rows.append(_import())
    rows += _models()
    rows.append(_peak("resnet50", "networks.pictures(16, 224, 1000)"))
    rows.append(_peak("bert_base", "networks.words(8, 128, 30522, 2)"))
    return rows
