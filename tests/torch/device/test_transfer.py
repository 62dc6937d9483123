"""`transfer_to_npu`: programs written for cuda, each in a process of its own since it changes torch for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "import torch\nfrom torch_npu.contrib import transfer_to_npu\n"


def python(program: str, folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    source = folder / "program.py"
    source.write_text(program)
    return subprocess.run(
        [sys.executable, *options, str(source)],
        env=os.environ | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(program: str, folder: Path, *options: str, **variables: str) -> str:
    done = python(program, folder, *options, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


DEVICES = (
    HEAD
    + """
import torch.nn as nn

def places(*tensors):
    return [str(one.device) for one in tensors]

assert torch.cuda.is_available() and torch.cuda.device_count() == torch.npu.device_count() == 2
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
x = torch.randn(4, 3, device=device)
assert places(x, x.cuda(1), x.to("cuda:1", non_blocking=True), x.to(1), torch.tensor([1.0], device=0)) == [
    "npu:0", "npu:1", "npu:1", "npu:1", "npu:0"]
assert places(torch.zeros(1).to(torch.device("cuda", 1), torch.half), torch.ones(1).new_zeros(2, device="cuda:1")) == ["npu:1"] * 2
assert places(torch.zeros_like(torch.ones(2), device="cuda:1"), torch.normal(0.0, 1.0, (2,), device="cuda"),
    torch.as_tensor([1.0], device="cuda"), torch.fft.fftfreq(4, device="cuda:1")) == ["npu:1", "npu:0", "npu:0", "npu:1"]
assert x.is_cuda and not torch.ones(1).is_cuda and x.untyped_storage().is_cuda and nn.Parameter(x).is_cuda
assert str(torch.ones(1).untyped_storage().cuda().device) == "npu:0"

model = nn.Linear(3, 2).cuda(1)
assert places(model.weight, nn.Linear(3, 2, device="cuda").weight, nn.Linear(2, 2).to("cuda:1").weight) == ["npu:1", "npu:0", "npu:1"]
assert places(nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight) == ["npu:0"]
assert nn.Linear(2, 2).to(device="cuda", dtype=torch.half).weight.dtype == torch.half

for one in (1, "cuda:1", torch.device("cuda", 1)):
    with torch.cuda.device(one):
        assert torch.cuda.current_device() == 1 and places(torch.zeros(1, device="cuda")) == ["npu:1"]
    torch.cuda.set_device(one)
    assert torch.npu.current_device() == 1
    torch.cuda.set_device(0)
with torch.device("cuda:1"):
    assert places(torch.zeros(2)) == ["npu:1"]
torch.set_default_device("cuda")
assert places(torch.zeros(2), torch.arange(3)) == ["npu:0"] * 2
torch.set_default_device(None)
assert places(torch.zeros(2)) == ["cpu"]

stream = torch.cuda.Stream(device="cuda:1", priority=-1)
assert isinstance(stream, torch.cuda.Stream) and isinstance(stream, torch.Stream) and str(stream.device) == "npu:1"
assert str(torch.Stream(device="cuda").device) == "npu:0"
class Own(torch.Stream):
    pass
assert issubclass(Own, torch.Stream) and not isinstance(stream, Own) and isinstance(Own(device="cuda:1"), Own)
with torch.cuda.stream(torch.cuda.Stream()):
    y = x * 2
torch.cuda.current_stream("cuda:0").wait_stream(stream)
y.record_stream(torch.cuda.current_stream())
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); end.record(); torch.cuda.synchronize(); torch.cuda.synchronize("cuda:1")
assert start.elapsed_time(end) >= 0 and torch.Event(device="cuda").device.type == "npu"

maker = torch.Generator(device="cuda").manual_seed(3)
assert isinstance(maker, torch.Generator) and maker.device.type == "npu" and isinstance(torch.Generator(), torch.Generator)
first = torch.rand(3, generator=maker, device="cuda")
assert torch.equal(first, torch.rand(3, generator=maker.manual_seed(3), device="cuda"))
torch.cuda.manual_seed_all(5); one = torch.rand(2, device="cuda")
torch.cuda.manual_seed(5); assert torch.equal(one, torch.rand(2, device="cuda"))
torch.cuda.set_rng_state(torch.cuda.get_rng_state("cuda:0"), "cuda"); assert len(torch.cuda.get_rng_state_all()) == 2
with torch.random.fork_rng(devices=[0], device_type="cuda"):
    torch.rand(1, device="cuda")

assert torch.cuda.FloatTensor(2).device.type == "npu" and isinstance(x, torch.cuda.FloatTensor)
assert torch.cuda.DoubleTensor([1.5]).dtype == torch.float32 and x.type("torch.cuda.DoubleTensor").dtype == torch.float32
assert x.type(torch.cuda.HalfTensor).dtype == x.type("torch.cuda.HalfTensor").dtype == torch.half

assert torch.cuda.memory_allocated("cuda:0") == torch.npu.memory_allocated(0) > 0
assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() and "Allocated memory" in torch.cuda.memory_summary("cuda")
assert torch.cuda.memory.memory_reserved(0) == torch.npu.memory_reserved() and torch.cuda.mem_get_info()[1] > 0
torch.cuda.reset_peak_memory_stats(torch.device("cuda")); torch.cuda.empty_cache()
torch.cuda.memory._record_memory_history(); assert "segments" in torch.cuda.memory._snapshot()
torch.cuda.memory._record_memory_history(enabled=None)
assert torch.cuda.get_device_name("cuda:1") == torch.npu.get_device_name(1)
assert torch.cuda.get_device_properties("cuda").total_memory > 0 and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
assert torch.cuda.get_arch_list() == [] and not torch.cuda.is_tf32_supported()
torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = torch.backends.cuda.matmul.allow_tf32 = True
torch.cuda.nvtx.range_push("step"); torch.cuda.nvtx.range_pop()
with torch.cuda.nvtx.range("all"):
    pass

graph, still = torch.cuda.CUDAGraph(), torch.ones(3, device="cuda")
with torch.cuda.graph(graph):
    twice = still * 2
still.fill_(4.0); graph.replay()
assert twice.tolist() == [8.0] * 3
from torch.utils.data import DataLoader
words = ["cuda", "cuda:1"]
assert DataLoader(words).dataset is words and words == ["cuda", "cuda:1"]
from torch.nn import DataParallel
try:
    DataParallel(nn.Linear(2, 2).cuda(), device_ids=["cuda:0"], output_device=torch.device("cuda", 0))
except RuntimeError as error:
    assert "DistributedDataParallel" in str(error)
else:
    raise AssertionError("DataParallel is refused on npu")
print("done")
"""
)


def test_devices_streams_memory(tmp_path: Path) -> None:
    assert run(DEVICES, tmp_path) == "done\n"


TRAINING = """
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
x = torch.randn(64, 8)
data = TensorDataset(x, (x.sum(1) > 0).long())
loader = DataLoader(data, batch_size=16, shuffle=True, pin_memory=torch.cuda.is_available(), num_workers=int(sys.argv[1]))
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
if torch.cuda.is_available():
    model = model.cuda()
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
losses = []
for epoch in range(3):
    for inputs, target in loader:
        if torch.cuda.is_available():
            assert inputs.is_pinned()
            inputs, target = inputs.cuda(non_blocking=True), target.to(device, non_blocking=True)
        loss = criterion(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
state = torch.load("checkpoint.pt", map_location=device)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
for one in ("cuda:1", {"cuda:0": "cuda:1"}, torch.device("cuda", 1), lambda storage, place: storage.cuda(1)):
    if torch.cuda.is_available():
        assert str(torch.load("checkpoint.pt", map_location=one)["model"]["0.weight"].device) == "npu:1"
print(" ".join(f"{one:.4f}" for one in losses))
print(next(model.parameters()).device)
"""


def test_a_training_program_needs_no_change(tmp_path: Path) -> None:
    """The environment variable alone moves it, and it learns the same as on the CPU."""
    start = "import torch_npu\n"  # torch does it alone where autoloading is on
    moved = run(start + TRAINING.replace("sys.argv[1]", "1"), tmp_path, TORCH_TRANSFER_TO_NPU="1").split("\n")
    plain = run(start + TRAINING.replace("sys.argv[1]", "0"), tmp_path, CUDA_VISIBLE_DEVICES="").split("\n")
    assert moved[1] == "npu:0" and plain[1] == "cpu"
    ours, theirs = ([float(one) for one in line.split()] for line in (moved[0], plain[0]))
    assert ours == pytest.approx(theirs, abs=2e-3) and ours[-1] < ours[0]


MIXED = (
    HEAD
    + """
import warnings
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

torch.manual_seed(0)
model = nn.Linear(8, 1).cuda()
x, y = torch.randn(64, 8, device="cuda"), torch.randn(64, 1, device="cuda")
for scaler, context in (
    (GradScaler(), lambda: autocast()),
    (torch.cuda.amp.GradScaler(init_scale=1024.0), lambda: torch.cuda.amp.autocast(enabled=True)),
    (torch.amp.GradScaler("cuda"), lambda: torch.autocast("cuda", dtype=torch.bfloat16)),
    (torch.amp.GradScaler(), lambda: torch.amp.autocast(device_type="cuda")),
):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(8):
        optimizer.zero_grad(set_to_none=True)
        with context():
            out = model(x)
            assert out.dtype in (torch.half, torch.bfloat16) and torch.is_autocast_enabled("cuda")
            loss = nn.functional.mse_loss(out, y)
        scaler.scale(loss).backward()
        if step == 3:
            model.weight.grad[0, 0] = float("inf")
            before = model.weight.detach().clone()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        if step == 3:
            assert torch.equal(before, model.weight)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] <= losses[0] and scaler.is_enabled() and scaler.get_scale() > 0
assert torch.get_autocast_gpu_dtype() == torch.half

class Twice(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd
    def forward(ctx, a):
        return a * 2
    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return grad * 2
with torch.cuda.amp.autocast():
    Twice.apply(x.clone().requires_grad_()).sum().backward()
print("done")
"""
)


def test_mixed_precision(tmp_path: Path) -> None:
    assert run(MIXED, tmp_path) == "done\n"


OTHERS = """
import warnings
import torch
import torch.distributed as dist
seen = []
genuine = torch.cuda.device_count
torch.cuda.device_count = lambda: 7  # a build of torch that has seven of them
dist.init_process_group = lambda *args, **kwargs: seen.append((args, kwargs))
dist.new_group = lambda *args, **kwargs: seen.append((args, kwargs))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from torch_npu.contrib import transfer_to_npu
    from torch_npu.contrib import transfer_to_npu
    import importlib
    importlib.reload(transfer_to_npu)
told = [one for one in said if one.category is ImportWarning]
assert len(told) == 1 and all(name in str(told[0].message) for name in ("torch.cuda.is_available", "torch.zeros", "torch.jit.script"))
assert torch.cuda.device_count() == 2 and torch.cuda.is_available()
from torch.utils.collect_env import get_pretty_env_info

dist.init_process_group("nccl", rank=0); dist.init_process_group(backend="cpu:gloo,cuda:nccl", device_id=torch.device("cuda", 1))
dist.init_process_group("gloo"); dist.init_process_group(); dist.new_group([0], None, "nccl")
assert seen == [(("hccl",), {"rank": 0}), ((), {"backend": "cpu:gloo,npu:hccl", "device_id": torch.device("npu", 1)}),
    (("gloo",), {}), ((), {}), (([0], None, "hccl"), {})], seen

def plain(a):
    return a + 1
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert torch.jit.script(plain) is plain
    module = torch.nn.Linear(2, 2)
    assert torch.jit.script(module) is module
assert [one.category for one in said] == [RuntimeWarning] * 2 and "switched off" in str(said[0].message)

tags = torch.serialization.location_tag
torch.serialization.location_tag = lambda storage: "cuda:1"
torch.save({"w": torch.arange(3.0)}, "cuda.pt")
torch.serialization.location_tag = tags
assert str(torch.load("cuda.pt")["w"].device) == "npu:1" and torch.load("cuda.pt")["w"].tolist() == [0, 1, 2]
assert str(torch.load("cuda.pt", map_location={"cuda:1": "cuda:0"})["w"].device) == "npu:0"
assert str(torch.load("cuda.pt", map_location="cpu")["w"].device) == "cpu"

from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    torch.ones(3, device="cuda") + 1
assert "aten::add" in prof.key_averages().table(sort_by="cuda_time_total")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    profile(activities=[ProfilerActivity.CUDA], experimental_config=torch._C._profiler._ExperimentalConfig())
assert any("left away" in str(one.message) for one in said)
from torch.distributed.fsdp import FullyShardedDataParallel
assert FullyShardedDataParallel.__init__.__wrapped__.__qualname__ == "FullyShardedDataParallel.__init__"
print("done")
"""


def test_distributed_scripting_files_profiler(tmp_path: Path) -> None:
    assert run(OTHERS, tmp_path) == "done\n"


COMPILED = (
    HEAD
    + """
import torch.nn as nn

def branch(a):
    if a.is_cuda and torch.cuda.is_available():
        return a.cuda() * 2 + torch.zeros(3, device=torch.device("cuda", 0)).to("cuda")
    return a
x = torch.randn(4, 3, device="cuda")
assert torch.equal(torch.compile(branch, backend="eager", fullgraph=True)(x), x * 2)
model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 1)).cuda()
plain = model(x)
fast = torch.compile(model)
torch.testing.assert_close(fast(x), plain)
fast(x).sum().backward()
assert model[0].weight.grad.is_cuda
torch.testing.assert_close(torch.compile(lambda a: a.sin() + 1, backend="cudagraphs")(x), x.sin() + 1)
def mixed(a):
    with torch.autocast("cuda"):
        return a @ a.t()
assert torch.compile(mixed)(x).dtype == torch.half
print("done")
"""
)


@pytest.mark.slow
def test_compiled_programs(tmp_path: Path) -> None:
    assert run(COMPILED, tmp_path) == "done\n"
