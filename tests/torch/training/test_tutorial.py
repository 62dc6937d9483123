"""The deployment tutorial: environment check, migration, memory, batches, and its helper classes, as written there.

Left to other tests: `transfer_to_npu`, AMP's `autocast` in full, ATC, AscendCL, msprof. The tutorial's CLIP model stands here as a
small model of two towers: no weights are downloaded.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor, nn


class Clip(nn.Module):
    """Pictures and words into one space; the inputs have the tutorial's names."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.picture, self.word = nn.Conv2d(3, width, 8, 8), nn.Embedding(1000, width)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, input_ids: Tensor, pixel_values: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask[..., None]
        text = (self.word(input_ids) * mask).sum(1) / mask.sum(1)
        image = self.picture(pixel_values).mean((2, 3))
        return nn.functional.normalize(image, dim=-1) @ nn.functional.normalize(text, dim=-1).t() * self.scale.exp()


def inputs() -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {
        "input_ids": torch.randint(0, 1000, (2, 77)),
        "pixel_values": torch.randn(1, 3, 32, 32),
        "attention_mask": torch.ones(2, 77, dtype=torch.long),
    }


def test_the_check_of_the_environment_finds_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    print(f"NPU available: {torch.npu.is_available()}")
    print(f"NPU count: {torch.npu.device_count()}")
    print(f"Current NPU: {torch.npu.current_device()}")
    x = torch.randn(3, 3).npu()
    y = torch.randn(3, 3).npu()
    z = x + y
    print(f"Result device: {z.device}")
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "NPU available: True",
        f"NPU count: {torch.npu.device_count()}",
        "Current NPU: 0",
        "Result device: npu:0",
    ]
    torch.testing.assert_close(z.cpu(), x.cpu() + y.cpu())


def migrate_to_npu(model: nn.Module, device_type: str = "auto") -> tuple[nn.Module, str]:
    if device_type == "auto":
        if torch.npu.is_available():
            device = "npu:0"
        elif torch.cuda.is_available():
            device = "cuda:0"
        else:
            device = "cpu"
    else:
        device = device_type
    model = model.to(device)
    print(f"Model migrated to: {device}")
    return model, device


def test_a_model_migrates_to_npu_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    model, device = migrate_to_npu(Clip())
    assert (device, capsys.readouterr().out) == ("npu:0", "Model migrated to: npu:0\n")
    assert {one.device for one in model.parameters()} == {torch.device("npu:0")}
    back, device = migrate_to_npu(model, "cpu")
    assert {one.device.type for one in back.parameters()} == {device}


def test_clip_on_npu() -> None:
    torch.manual_seed(0)
    model, device = Clip(), "npu:0"
    with torch.no_grad():
        expected = model(**inputs()).softmax(dim=1)
    model = model.to(device)
    model.eval()
    moved = {k: v.to(device) for k, v in inputs().items()}
    with torch.no_grad():
        probs = model(**moved).softmax(dim=1)
    torch.testing.assert_close(torch.from_numpy(probs.cpu().numpy()), expected)
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        probs.numpy()


def test_operators_that_are_missing_run_on_the_cpu() -> None:
    x = torch.randn(1, 1, 4, 4).npu()
    grid = torch.rand(1, 2, 2, 2).npu() * 2 - 1
    assert not hasattr(torch.npu, "some_op")
    result = nn.functional.grid_sample(x.cpu(), grid.cpu(), align_corners=False).npu()
    torch.testing.assert_close(nn.functional.grid_sample(x, grid, align_corners=False), result)


def test_half_precision() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    expected = model(x)
    result = model.half().npu()(x.half().npu())
    assert (result.dtype, result.device.type) == (torch.float16, "npu")
    torch.testing.assert_close(result.float().cpu(), expected, rtol=1e-2, atol=1e-2)


def test_autocast_computes_in_half_inside_only() -> None:
    model, x = nn.Linear(8, 4).npu(), torch.randn(3, 8).npu()
    with torch.npu.amp.autocast():
        assert model(x).dtype == torch.float16
    assert model(x).dtype == torch.float32


def test_memory_is_cleaned() -> None:
    before = torch.npu.memory_allocated()
    x = torch.ones(4 << 20, device="npu")
    assert torch.npu.memory_allocated() - before == 16 << 20
    del x
    if torch.npu.is_available():
        torch.npu.empty_cache()
        torch.npu.synchronize()
    assert torch.npu.memory_allocated() == before
    assert torch.npu.memory_reserved() < before + (16 << 20)


def batch_inference_optimized(model: nn.Module, images: list[Tensor], batch_size: int = 8) -> list[Tensor]:
    results: list[Tensor] = []
    for i in range(0, len(images), batch_size):
        batch = images[i : i + batch_size]
        if len(batch) < batch_size:
            batch = batch + [batch[-1]] * (batch_size - len(batch))
        batch_tensor = torch.stack(batch).npu()
        with torch.no_grad():
            output = model(batch_tensor)
        results.extend(output[: len(images[i : i + batch_size])])
    return results


def test_batches_give_what_the_whole_gives() -> None:
    torch.manual_seed(0)
    model, images = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), [torch.randn(3, 5, 5) for _ in range(11)]
    expected = model(torch.stack(images)).detach()
    results = batch_inference_optimized(model.npu(), images)
    assert len(results) == 11
    torch.testing.assert_close(torch.stack(results).cpu(), expected)


def test_unsupported_operators_are_errors() -> None:
    """The check of the tutorial: the model and its input move, and what fails is a RuntimeError."""
    model = nn.Linear(3, 2).npu()
    assert model(torch.ones(1, 3).npu()).shape == (1, 2)
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device|two devices"):
        model(torch.ones(1, 3))


def test_cpu_and_npu_do_not_differ() -> None:
    torch.manual_seed(0)
    model_cpu, input_cpu = Clip(), inputs()
    output_cpu = model_cpu(**input_cpu)
    model_npu = Clip()
    model_npu.load_state_dict(model_cpu.state_dict())
    output_npu = model_npu.npu()(**{k: v.npu() for k, v in input_cpu.items()}).cpu()
    assert torch.abs(output_cpu - output_npu).max().item() < 1e-5


class DeviceAgnosticModel:
    def __init__(self, model_path: str, device: str = "auto") -> None:
        self.model = self.load_model(model_path)
        self.device = self.get_device(device)
        self.model = self.model.to(self.device)

    def load_model(self, model_path: str) -> nn.Module:
        return torch.load(model_path, weights_only=False)

    def get_device(self, device: str) -> str:
        if device == "auto":
            if torch.npu.is_available():
                return "npu:0"
            elif torch.cuda.is_available():
                return "cuda:0"
            else:
                return "cpu"
        return device

    def infer(self, data: Tensor) -> Tensor:
        moved = self.to_device(data)
        with torch.no_grad():
            return self.model(moved)

    def to_device(self, data: object) -> object:
        if isinstance(data, dict):
            return {k: v.to(self.device) for k, v in data.items()}
        elif isinstance(data, torch.Tensor):
            return data.to(self.device)
        else:
            return data


def test_device_agnostic_model(tmp_path: Path) -> None:
    source, x = nn.Linear(3, 2), torch.randn(4, 3)
    torch.save(source, tmp_path / "model.pt")
    for device, kind in (("auto", "npu"), ("npu:1", "npu"), ("cpu", "cpu")):
        model = DeviceAgnosticModel(str(tmp_path / "model.pt"), device)
        result = model.infer(x)
        assert result.device.type == kind
        torch.testing.assert_close(result.cpu(), source(x).detach())
    assert model.to_device("text") == "text"
    assert set(model.to_device({"a": x})) == {"a"}


class PerformanceMonitor:
    def __init__(self, device: str = "npu") -> None:
        self.device = device
        self.reset()

    def reset(self) -> None:
        self.times: list[float] = []
        self.memory_usage: list[float] = []

    def __enter__(self) -> PerformanceMonitor:
        if "npu" in self.device:
            torch.npu.synchronize()
        self.start_time = time.time()
        return self

    def __exit__(self, *args: object) -> None:
        if "npu" in self.device:
            torch.npu.synchronize()
        elapsed = time.time() - self.start_time
        self.times.append(elapsed)
        if "npu" in self.device:
            memory = torch.npu.memory_allocated() / 1024**2  # MB
            self.memory_usage.append(memory)

    def report(self) -> None:
        avg_time = sum(self.times) / len(self.times) if self.times else 0
        max_memory = max(self.memory_usage) if self.memory_usage else 0
        print(f"Average inference time: {avg_time * 1000:.2f}ms")
        print(f"Peak memory usage: {max_memory:.2f}MB")
        print(f"Throughput: {1 / avg_time:.2f} samples/sec")


def test_performance_monitor(capsys: pytest.CaptureFixture[str]) -> None:
    model, data = nn.Linear(256, 256).npu(), torch.randn(64, 256).npu()
    monitor = PerformanceMonitor(device="npu")
    for _ in range(100):
        with monitor:
            model(data)
    monitor.report()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Average inference time", "Peak memory usage", "Throughput"]
    assert len(monitor.times) == 100 and all(one >= 0 for one in monitor.times)
    weights = (256 * 256 + 256 + 64 * 256) * 4 / 1024**2
    assert min(monitor.memory_usage) >= weights
    assert max(monitor.memory_usage) == min(monitor.memory_usage), "inference leaves nothing behind"


def safe_npu_inference(model: nn.Module, data: dict[str, Tensor], fallback_to_cpu: bool = True) -> Tensor:
    try:
        inputs_npu = {k: v.npu() for k, v in data.items()}
        with torch.no_grad():
            outputs = model(**inputs_npu)
        return outputs.cpu()
    except Exception as e:
        print(f"NPU inference failed: {e}")
        if fallback_to_cpu:
            print("Falling back to CPU...")
            model_cpu = model.cpu()
            with torch.no_grad():
                return model_cpu(**data)
        else:
            raise


def test_safe_inference(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model = Clip().npu()
    good = safe_npu_inference(model, inputs())
    assert capsys.readouterr().out == ""
    model.cpu()  # the weights are on the other side now, so npu inputs fail
    torch.testing.assert_close(safe_npu_inference(model, inputs()), good)
    assert "Falling back to CPU..." in capsys.readouterr().out
    with pytest.raises(RuntimeError):
        safe_npu_inference(model, inputs(), fallback_to_cpu=False)
