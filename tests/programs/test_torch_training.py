"""examples/training: the porting guide's quick start (by hand and by the tool) against the CPU, checkpoints, export to .om, ShuffleNet.

The guide's two commands run as printed, but for paths and sizes; the learning rate follows the batch, and the first gets a seed too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"
TIME_LIMIT_S = 300
SMALL = "--width 8 --image-size 32 --print-freq 1"
SINGLE = (
    "--batch-size 16 --lr 0.0125 --epochs 2 --arch resnet50 --world-size 1 --rank 0 --workers 2 --momentum 0.9 "
    f"--weight-decay 1e-4 {SMALL} --seed 49"
)
SEVERAL = (
    "--addr=127.0.0.1 --seed 49 --workers 2 --lr 0.0125 --print-freq 1 --arch resnet50 --dist-url tcp://127.0.0.1:50000 "
    f"--multiprocessing-distributed --world-size 1 --batch-size 16 --epochs 2 --rank 0 --device-list 0,1 {SMALL}"
)

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec(name) is None, reason=f"{name} is not installed: make setup brings everything"
    )
    for name in ("torch_npu", "apex", "libcst", "PIL")
]


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def start(path: Path, folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SOFTNPU_", "ASCEND_", "MASTER_"))}
    env |= {"HOME": str(folder), "SOFTNPU_RUNTIME_DIR": str(folder), "OMP_NUM_THREADS": "1", "MASTER_PORT": free_port()}
    return subprocess.run(
        [sys.executable, "-B", str(path), *words.split()],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )


def run(path: Path, folder: Path, words: str) -> str:
    """What a program prints; it must end well."""
    done = start(path, folder, words)
    assert done.returncode == 0, f"{path.name} {words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def losses(text: str) -> list[tuple[str, float]]:
    """Which step of which process, and its loss."""
    found = re.findall(r"((?:rank \d+ )?Epoch: \[\d+\] \[\d+/\d+\]) Time +\S+ Loss (\S+)", text)
    return sorted((step, float(loss)) for step, loss in found)


def same(ours: str, theirs: str, steps: int, tolerance: float = 1e-5) -> None:
    """Two runs had the same losses, step by step."""
    one, other = losses(ours), losses(theirs)
    assert len(other) == steps and [step for step, _ in one] == [step for step, _ in other]
    assert [loss for _, loss in one] == pytest.approx([loss for _, loss in other], rel=tolerance)
    assert len({loss for _, loss in one}) == steps, "a loss that stands still says nothing"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    run(EXAMPLES / "image_folder.py", folder, "imagenet --train 4 --val 2")
    return folder / "imagenet"


@pytest.fixture(scope="module")
def cuda_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CUDA program as the project that the guide starts from."""
    folder = tmp_path_factory.mktemp("project") / "imagenet"
    folder.mkdir()
    shutil.copy(EXAMPLES / "imagenet_main.py", folder / "main.py")
    for name in ("image_folder.py", "imagenet_parts.py", "networks.py"):
        shutil.copy(EXAMPLES / name, folder)
    return folder


@pytest.fixture(scope="module")
def converted(cuda_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tool makes of it."""
    from softnpu.cli import ms_fmk_transplt

    folder = tmp_path_factory.mktemp("converted")
    assert ms_fmk_transplt.main(["-i", str(cuda_project), "-o", str(folder)]) == 0
    return folder / "imagenet_msft" / "main.py"


@pytest.fixture(scope="module")
def runs(
    pictures: Path, cuda_project: Path, converted: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[str, Path]]]:
    """The runs of one process, started together: what each printed, and the folder with its checkpoint."""
    base = tmp_path_factory.mktemp("runs")
    hand = EXAMPLES / "imagenet_npu.py"
    wanted = {
        "hand_npu": (hand, f"{pictures} {SINGLE}"),
        "hand_cpu": (hand, f"{pictures} {SINGLE} --device cpu"),
        "tool_npu": (converted, f"{pictures} {SINGLE} --gpu 0"),
        "cuda_cpu": (cuda_project / "main.py", f"{pictures} {SINGLE}"),
        "shufflenet": (EXAMPLES / "shufflenet_affinity.py", "--width 8 --image-size 32 -b 4"),
    }
    with ThreadPoolExecutor(2) as pool:
        started: dict[str, Future[str]] = {
            name: pool.submit(run, path, base / name, words) for name, (path, words) in wanted.items()
        }
        yield lambda name: (started[name].result(), base / name)


def test_the_program_migrated_by_hand_trains_like_the_cpu(runs: Callable[[str], tuple[str, Path]]) -> None:
    same(runs("hand_npu")[0], runs("hand_cpu")[0], 4, 1e-6)


def test_the_program_migrated_by_the_tool_trains_like_the_cuda_program_on_the_cpu(
    runs: Callable[[str], tuple[str, Path]], converted: Path
) -> None:
    text = converted.read_text()
    assert "import torch_npu" in text and "hccl" in text and "torch.cuda" not in text
    assert "using CPU" in runs("cuda_cpu")[0] and "using CPU" not in runs("tool_npu")[0]
    same(runs("tool_npu")[0], runs("cuda_cpu")[0], 4, 1e-6)
    first = [pair for pair in losses(runs("tool_npu")[0]) if "[0]" in pair[0][:10]]
    assert first == losses(runs("hand_npu")[0])[:2], (
        "the first epoch, before the guide's shuffled validation draws numbers"
    )


def test_a_checkpoint_becomes_an_offline_model(runs: Callable[[str], tuple[str, Path]], tmp_path: Path) -> None:
    """The program compares pyACL's result with torch's and fails when they differ."""
    place = runs("hand_npu")[1] / "checkpoint.pth.tar"
    text = run(EXAMPLES / "export_onnx.py", tmp_path, f"{place} --image-size 32 --output {tmp_path / 'resnet50'}")
    assert "resnet50.om: 4 pictures, largest difference from torch on npu" in text
    assert (tmp_path / "resnet50.onnx").exists() and (tmp_path / "resnet50.om").exists()


def test_the_affinity_rewrite_takes_copies_and_conversions_away(runs: Callable[[str], tuple[str, Path]]) -> None:
    """The program checks losses, gradients and that every step helps."""
    text = runs("shufflenet")[0]
    rows = [[int(word) for word in re.findall(r" (\d+)(?= |$)", line)] for line in text.splitlines()[1:-1]]
    assert len(rows) == 8 and "loss and gradients are those of the CPU in every step" in text
    copies, transdata = [row[-4] for row in rows], [row[-1] for row in rows]
    assert copies[0] > copies[1] > copies[2] == 0
    assert transdata[-1] * 2 < transdata[0], "the chapter ends with less than half of the conversions"


@pytest.mark.slow
def test_several_devices_train_like_several_processes_on_the_cpu(pictures: Path, tmp_path: Path) -> None:
    """The guide's second command, first without --amp: every loss of every rank is the CPU's."""
    program, words = EXAMPLES / "imagenet_npu.py", f"{pictures} {SEVERAL}"
    cpu = run(program, tmp_path / "cpu", f"{words} --dist-backend gloo --device cpu")
    npu = run(program, tmp_path / "npu", f"{words} --dist-backend hccl")
    same(npu, cpu, 8, 1e-6)
    assert {step[:6] for step, _ in losses(npu)} == {"rank 0", "rank 1"}
    half = run(program, tmp_path / "amp", f"{words} --dist-backend hccl --amp")
    assert "Selected optimization level O2" in half
    same(half, cpu, 8, 0.05)
    text = run(
        EXAMPLES / "export_onnx.py", tmp_path / "om", f"{tmp_path / 'amp' / 'checkpoint.pth.tar'} --image-size 32"
    )
    assert "model.om: 4 pictures" in text, "names that begin with module."


@pytest.mark.slow
def test_the_converted_program_on_several_devices(converted: Path, pictures: Path, tmp_path: Path) -> None:
    """It differs from the one by hand in the second epoch only, whose validation is shuffled."""
    words = SEVERAL.replace("--addr=127.0.0.1", "").replace("--device-list 0,1", "").replace("50000", free_port())
    tool = run(converted, tmp_path / "tool", f"{pictures} {words} --epochs 1 --dist-backend hccl")
    hand = run(EXAMPLES / "imagenet_npu.py", tmp_path / "hand", f"{pictures} {SEVERAL} --epochs 1 --dist-backend hccl")
    same(tool, hand, 4, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "--amp", "--amp --loss-scale=-1"], ids=["float32", "static", "dynamic"])
def test_a_checkpoint_goes_on_as_if_there_had_been_no_stop(pictures: Path, tmp_path: Path, words: str) -> None:
    program, words = EXAMPLES / "imagenet_npu.py", f"{pictures} {SINGLE} {words}"
    whole = run(program, tmp_path / "whole", words)
    run(program, tmp_path / "stopped", f"{words} --epochs 1")
    rest = run(program, tmp_path / "stopped", f"{words} --resume checkpoint.pth.tar")
    assert "(epoch 1)" in rest and losses(rest) == losses(whole)[2:]
    last = run(program, tmp_path / "stopped", f"{words} --resume checkpoint.pth.tar --evaluate")
    assert not losses(last) and " * Loss" in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pretrained", "--pretrained needs weights from the internet"),
        ("--resume nowhere.tar", "--resume: there is no checkpoint 'nowhere.tar'"),
        ("--amp --device cpu", "--amp is for npu"),
        ("", "has no folders with pictures"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: str, message: str) -> None:
    done = start(EXAMPLES / "imagenet_npu.py", tmp_path, f"{tmp_path / 'nothing'} {words}")
    assert done.returncode != 0 and message in done.stderr
