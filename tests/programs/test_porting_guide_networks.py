"""Code examples of the porting guide that no other test runs: dumps, hooks, saving, export, ShuffleNet.

`porting_guide/README.md` has the list of all. Lines are the guide's, but for paths, sizes and the slips that comments name.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import nn

from tests.programs.porting_guide.runs import PROGRAMS, STAND_INS, Net, new_training, run


@pytest.fixture
def training() -> Any:
    """model, input_tensor, target, loss_func, optimizer as the examples call them, on npu."""
    return new_training()


# Operators dumped, loaded and compared


@pytest.fixture
def h5(monkeypatch: pytest.MonkeyPatch) -> Any:
    """h5py, or a stand-in for what is used of it."""
    if importlib.util.find_spec("h5py") is None:
        monkeypatch.syspath_prepend(STAND_INS)
    import h5py

    yield h5py
    if getattr(h5py, "__file__", "").startswith(str(STAND_INS)):
        sys.modules.pop("h5py")


@contextlib.contextmanager
def ends_with_exit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples end their programs after one step; the interpreter's `exit` also closes the input."""
    monkeypatch.setattr(builtins, "exit", sys.exit, raising=False)
    with pytest.raises(SystemExit):
        yield


def outputs(h5: Any, path: Path) -> dict[str, list[Any]]:
    """First results by operator, in the order of their numbers."""
    file, found = h5.File(str(path), "r"), {}
    for name in sorted((one for one in file if "/output/" in one), key=lambda one: int(one.split("/")[2])):
        found.setdefault(name.split("/")[1], []).append(file[name][()])
    return found


def test_a_dump_of_the_cpu_is_loaded_and_compared_on_npu(
    h5: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU for the guide's GPU. The second run has other weights: what it is given comes from the file of the first."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    dataloader = [(torch.randn(2, 3, 8, 8), torch.tensor([1, 2]))] * 3
    model = Net()
    with ends_with_exit(monkeypatch):
        for i, data in enumerate(dataloader):
            with torch.utils.dumper(use_dump=True, dump_path="./model_gpu.h5") as dump:
                loss = nn.functional.cross_entropy(model(data[0]), data[1])
                loss.backward()
            exit()
    torch.manual_seed(1)
    model, dataloader = Net().npu(), [(images.npu(), target.npu()) for images, target in dataloader]
    with ends_with_exit(monkeypatch):
        for i, data in enumerate(dataloader):
            with torch.utils.dumper(use_dump=True, load_file_path="./model_gpu.h5", dump_path="./model_npu.h5") as dump:
                loss = nn.functional.cross_entropy(model(data[0]), data[1])
                loss.backward()
            exit()
    gpu, npu = outputs(h5, tmp_path / "model_gpu.h5"), outputs(h5, tmp_path / "model_npu.h5")
    assert (
        set(gpu)
        == set(npu)
        >= {"convolution", "native_batch_norm", "relu", "addmm", "_log_softmax", "convolution_backward"}
    )
    for name, golden in gpu.items():
        for mine, wanted in zip(npu[name], golden, strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(wanted), rtol=1e-4, atol=1e-5)


def test_the_dumper_reports_an_overflow(h5: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_overflow, dump_path = True, str(tmp_path)
    with torch.utils.dumper(check_overflow=check_overflow, dump_path=dump_path, load_file_path="") as dump:
        x = torch.tensor([60000.0], dtype=torch.half, device="npu") * 2
    assert capsys.readouterr().out == "IR: mul SeqId: 0 is overflow!\n" and x.isinf().item()
    (path,) = tmp_path.glob("*.h5")
    assert outputs(h5, path)["mul"][0].tolist() == [float("inf")]


def test_loaded_inputs_give_an_operator_file_of_cann(h5: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with torch.utils.dumper(use_dump=True, dump_path="./output.h5"):
        wanted = torch.tensor([1.0, -2.0, 3.0]).relu()
    input_data = torch.zeros(3, device="npu")
    with torch.utils.dumper(
        use_load=True, dump_path="./", load_file_path="./output.h5", load_with_acl_dump=True
    ) as dump:
        x = input_data.relu()
    assert torch.equal(x.cpu(), wanted)
    assert [path.name.split(".")[0] for path in tmp_path.glob("*/0/*")] == ["Relu"], (
        "one file of CANN's for the operator"
    )


# Looking into a network


def test_hooks_print_inputs_and_outputs_of_every_module(capsys: pytest.CaptureFixture[str]) -> None:
    def hook_func(name, module):
        def hook_function(module, inputs, outputs):
            print(name + " inputs", inputs)
            print(name + " outputs", outputs)

        return hook_function

    model, input_tensor = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).npu(), torch.ones(1, 2, device="npu")
    for name, module in model.named_modules():
        module.register_forward_hook(hook_func("[forward]: " + name, module))
        module.register_full_backward_hook(
            hook_func("[backward]: " + name, module)
        )  # manual slip: torch warns of the old name
    model(input_tensor.requires_grad_()).sum().backward()
    lines = capsys.readouterr().out.splitlines()
    found = [" ".join(line.split()[:3]) for line in lines if line.startswith("[")]
    one = [
        f"[{way}]: {name} {what}"
        for way, order in (("forward", "01"), ("backward", "10"))
        for name in order
        for what in ("inputs", "outputs")
    ]
    assert [line for line in found if line.split()[1] in ("0", "1")] == one
    assert any(line.startswith("[forward]: 0 inputs (tensor([[1., 1.]], device='npu:0', ") for line in lines)


def test_gradients_and_buffers_of_batch_norm_are_printed(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, input_tensor, *_ = training
    model(input_tensor).sum().backward()
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):  # manual slip: nn._BatchNorm
            print("[BN_buffer]: " + name, module.running_mean, module.running_var)
        for weight in module.parameters(recurse=False):  # manual slip: modules have no grad, their parameters do
            print("[grad]: " + name, weight.grad)
    text = capsys.readouterr().out
    assert text.count("[BN_buffer]: bn tensor([") == 1
    assert [text.count(f"[grad]: {name} tensor(") for name in ("conv", "bn", "fc")] == [2, 2, 2]
    assert "device='npu:0'" in text and not torch.equal(model.bn.running_mean.cpu(), torch.zeros(4))


# Saving and exporting


def test_a_saved_state_dict_is_loaded_on_the_cpu(training: Any, tmp_path: Path) -> None:
    net, input_tensor, *_ = training
    PATH = str(tmp_path / "state_dict_model.pt")
    torch.save(net.state_dict(), PATH)
    model = Net()
    model.load_state_dict(torch.load(PATH))
    model.eval()
    torch.testing.assert_close(model(input_tensor.cpu()), net.eval()(input_tensor).cpu(), rtol=1e-4, atol=1e-5)


def test_training_goes_on_from_a_checkpoint(training: Any, tmp_path: Path) -> None:
    model, input_tensor, target, loss_func, _ = training
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(model: Any, optimizer: Any) -> float:
        loss = loss_func(model(input_tensor), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    loss, epoch = step(model, optimizer), 3
    PATH = str(tmp_path / "checkpoint.pth.tar")
    torch.save({
        "epoch": epoch,
        "loss": loss,
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }, PATH)  # fmt: skip
    expected = [step(model, optimizer) for _ in range(2)]

    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    checkpoint = torch.load(PATH)
    model.load_state_dict(checkpoint["state_dict"])  # manual slip: saved and loaded under different names
    optimizer.load_state_dict(checkpoint["optimizer"])
    epoch, saved = checkpoint["epoch"], checkpoint["loss"]
    model.train()
    assert (epoch, saved) == (3, loss)
    assert [step(model, optimizer) for _ in range(2)] == expected


@pytest.mark.filterwarnings("ignore:You are using the legacy|The feature will be removed:DeprecationWarning")
@pytest.mark.parametrize(
    ("program", "network", "saved", "exported", "prefix"),
    [
        ("export_pth.py", "torchvision.models:resnet50", "resnet50.pth", "resnet50_official.onnx", ""),
        ("export_pth_tar.py", "mobilenet:mobilenet_v2", "mobilenet_cpu.pth.tar", "mobilenetV2_npu.onnx", "module."),
    ],
)
def test_a_trained_network_is_exported_to_onnx_with_its_numbers(
    program: str, network: str, saved: str, exported: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network trained on npu, saved, exported by the guide's program, run by onnxruntime: the numbers of npu."""
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(STAND_INS)
    module, _, name = network.partition(":")
    model = getattr(importlib.import_module(module), name)().npu()
    model(torch.randn(4, 3, 32, 32).npu())  # batch norm has seen something
    state = {f"{prefix}{key}": value for key, value in model.state_dict().items()}
    torch.save({"state_dict": state} if prefix else state, saved)
    runpy.run_path(str(PROGRAMS / program), run_name="__main__")
    x = torch.randn(1, 3, 32, 32)
    session = runtime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.tensor(found), model.eval()(x.npu()).detach().cpu(), rtol=1e-3, atol=1e-4)
    assert session.get_inputs()[0].name == ("actual_input_1" if prefix else "input")


# ShuffleNet


@pytest.fixture(scope="module")
def listings() -> Any:
    spec = importlib.util.spec_from_file_location("shufflenet_listings", PROGRAMS / "shufflenet_listings.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_channel_shuffle_by_index_select_has_the_same_meaning(
    listings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.randn(2, 232, 14, 14)
    for group in [2, 4, 8]:
        out1 = listings.channel_shuffle(x, group)
        out2 = listings.channel_shuffle_index_select(x, group)
        print((out1 - out2).sum())
        assert torch.equal(listings.channel_shuffle(x.npu(), group).cpu(), out2)
    assert capsys.readouterr().out == "tensor(0.)\n" * 3


@pytest.mark.filterwarnings("ignore:torch.Tensor.npu_format_cast is deprecated:FutureWarning")
@pytest.mark.parametrize("split_shuffle", [False, True], ids=["whole", "halves"])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_block_made_for_the_chip_computes_what_the_original_does(
    listings: Any, stride: int, split_shuffle: bool
) -> None:
    """The rewritten block on npu against the original on the CPU: results and gradients."""
    torch.manual_seed(0)
    inp, oup = 8, 8
    first = listings.OriginalInvertedResidual(inp, oup, stride)
    second = listings.InvertedResidual(inp, oup, stride, split_shuffle=split_shuffle)
    second.load_state_dict(first.state_dict(), strict=False)
    second = second.npu()
    x = torch.randn(2, inp, 6, 6)
    here, there = x.clone().requires_grad_(), x.npu().requires_grad_()
    expected = first(here)
    found = second(there.chunk(2, dim=1) if stride == 1 else there)
    found = torch.cat(found, 1) if split_shuffle else found
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (found * weight.npu()).sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-3, atol=1e-5)
    for name, one in first.named_parameters():
        torch.testing.assert_close(second.get_parameter(name).grad.cpu(), one.grad, rtol=1e-3, atol=1e-4)


# Others


@pytest.mark.parametrize("name", ["single_operator_max.py", "single_operator_conv2d.py"])
def test_the_tests_of_single_operators_pass(name: str, tmp_path: Path) -> None:
    done = run(str(PROGRAMS / name), folder=tmp_path)
    assert done.returncode == 0 and re.search(r"Ran 1 test in .*\n\nOK", done.stderr), done.stderr
    assert ("device='npu:0'" in done.stdout) == ("conv2d" in name), "the hook prints a gradient"


def test_the_guides_workaround_for_pillow_version_works() -> None:
    pytest.importorskip("PIL")
    try:
        from PIL import PILLOW_VERSION, Image, ImageEnhance, ImageOps
    except ImportError:
        from PIL import Image, ImageEnhance, ImageOps

        PILLOW_VERSION = "7.0.0"
    assert int(PILLOW_VERSION.split(".")[0]) >= 7, "Pillow has no such name since 7"
    assert ImageOps.invert(Image.new("L", (1, 1), 5)).getpixel((0, 0)) == 250 and ImageEnhance.Color


def test_the_tool_migrates_the_lines_of_one_card(tmp_path: Path) -> None:
    """The guide's lines before the migration become those after it, by the tool."""
    pytest.importorskip("libcst")
    before = """import torch

CALCULATE_DEVICE = "cuda:0"
torch.cuda.set_device(CALCULATE_DEVICE)
model = torch.nn.Linear(2, 2)
model = model.cuda()
model = model.to(CALCULATE_DEVICE)
images = torch.ones(1, 2).to(CALCULATE_DEVICE)
print(model(images).device)
"""
    (tmp_path / "main.py").write_text(before)
    done = run("-m", "softnpu.cli.ms_fmk_transplt", "-i", "main.py", "-o", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "out").rglob("main.py")
    text = made.read_text()
    for line in ('CALCULATE_DEVICE = "npu:0"', "torch_npu.npu.set_device(CALCULATE_DEVICE)", "model = model.npu()"):
        assert line in text.replace("torch.npu.set_device", "torch_npu.npu.set_device"), text
    done = run(str(made), folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "npu:0\n"), done.stderr
