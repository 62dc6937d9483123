"""Loading an .om against making onnxruntime's session from the same ONNX: time, and peak memory of load and run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from _models import bert, convert, resnet50
from _tools import Result

ROUNDS = 3
_PEER = """
import json, sys, time
import numpy as np, onnxruntime
start = time.perf_counter()
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
seconds = time.perf_counter() - start
feeds = {one.name: np.ones(one.shape, np.int64 if "int64" in one.type else np.float32) for one in session.get_inputs()}
for _ in range(2):
    session.run(None, feeds)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, peak]))
"""
_OURS = """
import json, sys, time
import numpy, onnxruntime, acl
acl.init(); acl.rt.set_device(0); acl.mdl.create_desc()
start = time.perf_counter()
model, ret = acl.mdl.load_from_file(sys.argv[1])
seconds = time.perf_counter() - start
assert ret == 0, acl.get_recent_err_msg()
desc = acl.mdl.create_desc(); acl.mdl.get_desc(desc, model)
def buffers(count, size_of):
    dataset = acl.mdl.create_dataset()
    for index in range(count):
        size = size_of(desc, index); pointer, _ = acl.rt.malloc(size, 0); acl.rt.memset(pointer, size, 0, size)
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
    return dataset
inputs = buffers(acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index)
outputs = buffers(acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index)
for _ in range(2):
    assert acl.mdl.execute(model, inputs, outputs) == 0
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, peak]))
"""


def _once(program: str, path: Path) -> tuple[float, int]:
    environment = {**os.environ, "SOFTNPU_ENGINE": "onnxruntime"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, env=environment
    )
    seconds, kilobytes = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, kilobytes


def _compare(name: str, model: Path) -> list[Result]:
    om = convert(model)
    ours, peer = [], []
    for _ in range(ROUNDS):  # in turns, each in a process of its own
        ours.append(_once(_OURS, om))
        peer.append(_once(_PEER, model))
    seconds = [statistics.median(sample[0] for sample in many) for many in (ours, peer)]
    memory = [statistics.median(sample[1] for sample in many) / 1024 for many in (ours, peer)]
    return [
        Result(f"load {name}", f"{seconds[0] * 1e3:.0f} ms", f"onnxruntime {seconds[1] * 1e3:.0f} ms", f"{seconds[0] / seconds[1]:.2f}", "≤ 1", seconds[0] <= seconds[1]),
        Result(f"peak memory of {name}", f"{memory[0]:.0f} MiB", f"onnxruntime {memory[1]:.0f} MiB", f"{memory[0] / memory[1]:.2f}", "≤ 1.15", memory[0] <= 1.15 * memory[1]),
    ]  # fmt: skip


def results() -> list[Result]:
    """All rows."""
    return _compare("ResNet-50", resnet50(1)) + _compare("BERT-base", bert())
