"""What converting and running timm, transformers, ultralytics and others from PyPI brought to light."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("libcst")
from softnpu.cli import ms_fmk_transplt
from softnpu.migrate.convert import Options, convert
from softnpu.migrate.reading.source import Source
from softnpu.migrate.reporting.reports import write_launcher
from softnpu.migrate.rules import rows


def project(tmp_path, text, *words):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "train.py").write_text(text)
    assert ms_fmk_transplt.main(["-i", str(tmp_path / "p"), "-o", str(tmp_path), *words]) == 0
    return next(tmp_path.glob("p_msft*"))


def test_links_of_the_report_lead_to_unsupported_lines_far_from_changes(tmp_path):
    text = "import torch\nx.cuda()\n" + "pass\n" * 40 + "torch.fft.fft(x)\n" + "pass\n" * 40
    page = (project(tmp_path, text) / "diff_report.html").read_text()
    links, places = set(re.findall(r'href="#([^"]+)"', page)), set(re.findall(r' id="([^"]+)"', page))
    assert "f0l43" in links and links <= places
    assert page.count("equal lines") == 2 and page.count("pass") < 40


def test_the_report_counts_what_is_in_unchanged_files(tmp_path):
    text = "import torch\nx.cuda()\n"
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "a.py").write_text(text)
    (folder / "b.py").write_text("import torch\ntorch.fft.fft(x)\n")
    assert ms_fmk_transplt.main(["-i", str(folder), "-o", str(tmp_path)]) == 0
    assert "1 more uses of unsupported interfaces, in 1 files" in (tmp_path / "p_msft/diff_report.html").read_text()


@pytest.mark.parametrize(("end", "status"), [("exit 0", 0), ("exit $RANK", 1)])
def test_the_launcher_tells_which_process_failed(tmp_path, end, status):
    write_launcher(tmp_path, "train.py")
    script = tmp_path / "run_distributed_npu.sh"
    text = script.read_text().replace("NPUS=($(seq 0 7))", "NPUS=(4 5)")
    script.write_text(text.replace("please input your shell script here", f"bash -c 'echo $RANK of $RANK_SIZE; {end}'"))
    done = subprocess.run(["bash", script.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status
    assert ("process 1 failed; see output_npu_5.log" in done.stderr) == bool(status)
    assert (tmp_path / "output_npu_5.log").read_text() == "1 of 2\n"


def test_a_reader_who_leaves_gets_no_traceback(tmp_path):
    (tmp_path / "p.py").write_text("import torch\n" + "x.cuda()\n" * 5000)
    command = f"{sys.executable} -m softnpu.cli.ms_fmk_transplt -i {tmp_path}/p.py -o {tmp_path}/o --dry-run | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env=os.environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "--- a/p.py\n", "")


def test_loaders_out_of_reach_are_named(tmp_path, capsys):
    text = "import torch\nfrom timm.data import create_loader\nmodel = torch.nn.Linear(1, 1).cuda()\nloader = create_loader(x)\n"
    project(tmp_path, text, "distributed", "-m", "train.py")
    assert "no DataLoader was found" in capsys.readouterr().out
    assert ms_fmk_transplt.main(
        ["-i", str(tmp_path / "p_msft_multi"), "-o", str(tmp_path), "distributed", "-m", "train.py"]
    ) == 0  # fmt: skip
    assert "DataLoader" not in capsys.readouterr().out


def test_a_process_group_that_is_there_already_is_named():
    text = "import torch\nmodel = f()\nif many:\n    torch.distributed.init_process_group('nccl')\n"
    done = convert(Source(text, "utf-8", False), Options(distributed=True), main=True)
    assert any("init_process_group" in warning for warning in done.warnings)
    again = convert(Source(done.text, "utf-8", False), Options(distributed=True), main=True)
    assert not any("init_process_group" in warning for warning in again.warnings)


def test_what_stays_is_reported():
    """A name without counterpart is kept only together with a tip."""
    known = rows.unsupported()
    assert [name for name in rows.table("rewrites")["keep"]["names"] if rows.find(known, name) is None] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from torch.cuda.graphs import CUDAGraph\n", "from torch.npu import NPUGraph as CUDAGraph\n"),
        ("import torch\ntorch.cuda.comm.broadcast(x, d)\n", "import torch\ntorch.cuda.comm.broadcast(x, d)\n"),
        ("import torch\nexcept_ = torch.cuda.AcceleratorError\n", "import torch\nexcept_ = torch.AcceleratorError\n"),
        ("import torch\nf(torch=torch.cuda)\n", "import torch\nf(torch=torch.npu)\n"),
    ],
)
def test_lines_of_real_projects_convert(old, new):
    assert convert(Source(old, "utf-8", False), Options()).text.replace("import torch_npu\n", "") == new
