"""Three small projects in common styles: converted by the tool, they reach on npu the losses of their CPU form."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libcst")
from softnpu.cli import ms_fmk_transplt

SAMPLES = Path(__file__).parent / "migrate_samples"


def run(path, *words, **env):
    done = subprocess.run(
        [sys.executable, "-B", path.name, *words],
        cwd=path.parent,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def losses(text):
    return [float(one) for one in re.findall(r"(?:loss|iou) ([\d.]+)", text)]


@pytest.mark.parametrize(
    ("name", "script", "cpu", "npu"),
    [
        ("imagenet", "main.py", [], ["--gpu", "0"]),
        pytest.param("detection", "train.py", ["--device", "cpu"], ["--device", "0"], marks=pytest.mark.slow),
        pytest.param("text", "run_text.py", ["--device", "cpu"], ["--device", "npu"], marks=pytest.mark.slow),
    ],
)
def test_a_converted_program_trains_like_its_cpu_form(tmp_path, name, script, cpu, npu):
    if importlib.util.find_spec("torch_npu") is None:
        pytest.skip("torch_npu is not installed")
    assert ms_fmk_transplt.main(["-i", str(SAMPLES / name), "-o", str(tmp_path)]) == 0
    new = tmp_path / f"{name}_msft" / script
    wanted, got = losses(run(SAMPLES / name / script, *cpu)), losses(run(new, *npu))
    assert wanted and got == pytest.approx(wanted, abs=1e-4)


@pytest.mark.slow
def test_a_converted_program_resumes(tmp_path):
    """The checkpoint of one epoch goes on as if there had been no stop."""
    if importlib.util.find_spec("torch_npu") is None:
        pytest.skip("torch_npu is not installed")
    assert ms_fmk_transplt.main(["-i", str(SAMPLES / "imagenet"), "-o", str(tmp_path), "-s"]) == 0
    main = tmp_path / "imagenet_msft" / "main.py"
    whole = losses(run(main, "--gpu", "1", "--epochs", "2", NPU_CALCULATE_DEVICE="1"))
    run(main, "--gpu", "1", "--save", str(tmp_path / "c.pth"), NPU_CALCULATE_DEVICE="1")
    rest = losses(
        run(main, "--gpu", "1", "--epochs", "2", "--resume", str(tmp_path / "c.pth"), NPU_CALCULATE_DEVICE="1")
    )
    assert rest == pytest.approx(whole[1:], abs=1e-5)


def test_only_the_lines_that_must_change_do(tmp_path):
    """The folder csrc/cuda keeps its name, comments and help texts stay, and a second run finds nothing."""
    for name in ("imagenet", "detection", "text"):
        assert ms_fmk_transplt.main(["-i", str(SAMPLES / name), "-o", str(tmp_path)]) == 0
        for old in sorted((SAMPLES / name).rglob("*.py")):
            new = tmp_path / f"{name}_msft" / old.relative_to(SAMPLES / name)
            before, after = old.read_text().splitlines(), new.read_text().splitlines()
            after = [line for line in after if line.strip() != "import torch_npu"]
            assert len(after) == len(before)
            changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
            assert all("cuda" in one or "nccl" in one for one, _ in changed)
            assert all(
                two == one.replace("cuda", "npu").replace("nccl", "hccl") or "cuda" in two for one, two in changed
            )
        again = tmp_path / "again" / f"{name}_msft_msft" / "change_list.csv"
        assert ms_fmk_transplt.main(["-i", str(tmp_path / f"{name}_msft"), "-o", str(tmp_path / "again")]) == 0
        assert len(again.read_text().splitlines()) == 1
    utilities = (tmp_path / "detection_msft" / "utils" / "torch_utils.py").read_text()
    assert '"csrc", "cuda"' in utilities
    assert "cuda device, i.e. 0" in (tmp_path / "detection_msft" / "train.py").read_text()


@pytest.mark.slow
def test_a_program_for_one_device_runs_on_two(tmp_path):
    """The distributed mode, started by the script it writes: two processes, each with its share of the data, end with a loss each."""
    probe = "import torch_npu, torch.distributed as d; print('hccl' in d.Backend.backend_list)"
    known = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=os.environ)
    if known.stdout.strip() != "True":
        pytest.skip("torch_npu has no hccl backend here")
    words = ["-i", str(SAMPLES / "text"), "-o", str(tmp_path), "distributed", "-m", "run_text.py"]
    assert ms_fmk_transplt.main(words) == 0
    folder = tmp_path / "text_msft_multi"
    script = folder / "run_distributed_npu.sh"
    text = script.read_text().replace("NPUS=($(seq 0 7))", "NPUS=(0 1)")
    script.write_text(text.replace("please input your shell script here", f"{sys.executable} -B run_text.py"))
    done = subprocess.run(
        ["bash", script.name], cwd=folder, capture_output=True, text=True, timeout=300, env=os.environ
    )
    printed = [(folder / f"output_npu_{rank}.log").read_text() for rank in range(2)]
    assert done.returncode == 0, printed
    assert [len(losses(one)) for one in printed] == [2, 2]
