"""pytorch_analyse: reading in its four modes, and running. Programs run in a process of their own."""

import csv
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("libcst")
from softnpu.cli import pytorch_analyse
from softnpu.migrate.analysis.chip_rows import lacks
from softnpu.migrate.errors import MigrateError

LIBRARY = """import torch
from torch import nn

def wave(x):
    return torch.fft.fft(x)

def song(x):
    return wave(x) + 1

def move(x):
    return x.to(torch.cuda.current_device())

class Net(nn.Module):
    def forward(self, x):
        return song(x).nonzero()

if __name__ == '__main__':
    optimizer = torch.optim.SGD(Net().parameters(), torch.no_such_name)
"""


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "a.py").write_text(LIBRARY)
    (folder / "old.py").write_text("print 1\n")
    return folder


def analyse(library, mode, *more):
    words = ["-i", str(library), "-o", str(library.parent), "-v", "2.8.0", "-m", mode, *more]
    shutil.rmtree(library.parent / "lib_analysis", ignore_errors=True)
    assert pytorch_analyse.main(words) == 0
    return library.parent / "lib_analysis"


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_uses_of_torch_are_listed(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # it would stay loaded for all tests that follow
    folder = analyse(library, "torch_apis")
    assert [row["OP"] for row in read(folder / "unsupported_api.csv")] == ["torch.fft.fft"]
    assert [row["OP"] for row in read(folder / "api_performance_advice.csv")] == ["torch.Tensor.nonzero"]
    assert read(folder / "cuda_op_list.csv") == [{"File": "a.py", "Api": "torch.cuda.current_device"}]
    assert "old.py: not valid Python 3" in (folder / "pytorch_analysis.txt").read_text()
    assert read(folder / "unknown_api.csv") == []  # nothing to compare with


@pytest.mark.slow
def test_names_that_the_installed_torch_lacks(library):
    command("softnpu.cli.pytorch_analyse", "-i", library, "-o", library.parent, "-v", "2.8.0")
    assert read(library.parent / "lib_analysis" / "unknown_api.csv") == [{"File": "a.py", "Api": "torch.no_such_name"}]


def test_third_party_follows_calls(library, tmp_path):
    (tmp_path / "more.csv").write_text("OP\ntorch.optim.SGD\n")
    folder = analyse(library, "third_party", "-api", str(tmp_path / "more.csv"))
    direct = {(row["Function"], row["OP"]) for row in read(folder / "framework_unsupported_op.csv")}
    assert direct == {("a.wave", "torch.fft.fft"), ("a.<module>", "torch.optim.SGD")}
    reached = {row["Function"] for row in read(folder / "full_unsupported_results.csv")}
    assert reached == {"a.wave", "a.song", "a.Net.forward", "a.<module>"}
    assert [row["Function"] for row in read(folder / "migration_needed_list.csv")] == ["a.move"]


def test_files_that_cannot_be_read_are_named_and_newer_syntax_is_read(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (library / "new.py").write_text("import torch\ntype A = int\ndef f(x):\n    return torch.fft.fft(x)\n")
    (library / ".venv").mkdir()
    (library / ".venv" / "b.py").write_text("import torch\ntorch.fft.fft(x)\n")
    folder = analyse(library, "torch_apis")
    assert [row["File"] for row in read(folder / "unsupported_api.csv")] == ["a.py", "new.py"]
    told = (folder / "pytorch_analysis.txt").read_text()
    assert "old.py: not valid Python 3 at line 1" in told and "new.py:" not in told
    folder = analyse(library, "third_party")
    assert "old.py: not valid Python 3 at line 1" in (folder / "pytorch_analysis.txt").read_text()
    folder = analyse(library, "dynamic_shape")
    assert "old.py: not valid Python 3 at line 1" in (folder / "pytorch_analysis.txt").read_text()
    assert (folder / ".venv" / "b.py").read_text() == (library / ".venv" / "b.py").read_text()


def test_third_party_reads_old_escapes(tmp_path):
    """Python warns about them, which is the library's business."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("import torch\ns = '\\d'\ndef f(x):\n    return torch.fft.fft(x)\n")
    folder = analyse(tmp_path / "lib", "third_party")
    assert [row["Function"] for row in read(folder / "framework_unsupported_op.csv")] == ["a.f"]


def test_calls_with_a_faster_form_are_listed(library):
    (row,) = read(analyse(library, "affinity_apis") / "affinity_api_call.csv")
    assert list(row) == ["File", "Start Line", "End Line", "Api Type", "Api Call Name", "Affinity Api Name"]
    assert row["Affinity Api Name"] == "torch_npu.optim.NpuFusedSGD"


def test_wrong_lists_and_chips(library, capsys):
    words = ["-i", str(library), "-o", str(library.parent), "-v", "2.8.0"]
    assert pytorch_analyse.main([*words, "-m", "third_party", "-api", "/none.csv"]) == 1
    assert "/none.csv" in capsys.readouterr().err
    assert pytorch_analyse.main(["--soc", "Ascend1", "--run", "x.py"]) == 1
    assert "Ascend1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        pytorch_analyse.main(["-i", str(library)])


def test_rows_of_chips():
    first, today = lacks("Ascend910A"), lacks("Ascend910B3")

    def runs(rows, name, *dtypes):
        return not any(row.applies(name, dtypes) for row in rows)

    assert not runs(first, "aten::trunc", "float32") and runs(today, "aten::trunc", "float32")
    assert not runs(first, "aten::trunc_", "float32") and not runs(first, "aten::trunc.out", "float32")
    assert not runs(first, "aten::add.Tensor", "bfloat16") and runs(today, "aten::add.Tensor", "bfloat16")
    assert runs(first, "aten::copy_", "bfloat16")
    assert runs(first, "aten::mm", "float16") and not runs(first, "aten::mm", "float64")
    with pytest.raises(MigrateError, match="Ascend7"):
        lacks("Ascend7")


PROGRAM = """import sys, torch
x = torch.ones(3, requires_grad=True)
torch.trunc(x).sum().backward()
assert sys.argv[1:] == ["--lr", "1"], sys.argv
if __name__ == "__main__":
    for n in (2, 5):
        torch.ones(n, 2).relu()
"""


def command(module, *words):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    start = [sys.executable, *(["-m", module] if module else [])]
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # the CPU is enough
    done = subprocess.run([*start, *map(str, words)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_running_a_program_names_what_the_chip_lacks(tmp_path):
    (tmp_path / "p.py").write_text(PROGRAM)
    printed = command(
        "softnpu.cli.pytorch_analyse", "-o", tmp_path, "--run", tmp_path / "p.py", "--lr", "1", "--soc", "Ascend910A"
    )
    assert "1 of them would not run on Ascend910A" in printed
    assert f"aten::trunc (float32) x1 at {tmp_path}/p.py:3" in printed
    rows = {row["Operator"]: row for row in read(tmp_path / "p_analysis" / "operators.csv")}
    assert rows["aten::relu"]["Calls"] == "2" and rows["aten::relu"]["Shapes"] == "(2, 2); (5, 2)"
    assert rows["aten::trunc"]["Supported"] == "no" and rows["aten::sum"]["Supported"] == "yes"


def test_dynamic_shape_hooks_tell_the_ranges(tmp_path):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "p.py").write_text(PROGRAM)
    out = analyse(folder, "dynamic_shape")
    command("", out / "p.py", "--lr", "1")
    rows = {row["Function Name"]: row for row in read(out / "ascend_dynamic_shape.csv")}
    assert rows["aten.relu.default"]["Input Shape Range"] == "[2~5, 2]"
    assert rows["aten.relu.default"]["Line Number"] == "8"


def test_dynamic_shape_hooks_see_ranks_that_change_and_return(tmp_path):
    folder = tmp_path / "lib"
    folder.mkdir()
    lines = [
        "import torch",
        "from torch.utils.data import DataLoader, TensorDataset",
        "def first(x):",
        "    return torch.relu(x)",
        "if __name__ == '__main__':",
        "    for shape in ((2, 2), (3,), (4,), (2, 2)):",
        "        first(torch.rand(shape))",
        "    torch.neg(torch.rand(2))",
        "    for x, y in DataLoader(TensorDataset(torch.rand(4, 3), torch.arange(4)), 2):",
        "        first(x)",
    ]
    (folder / "p.py").write_text("\n".join(lines) + "\n")
    out = analyse(folder, "dynamic_shape")
    command("", out / "p.py")
    rows = read(out / "ascend_dynamic_shape.csv")
    names = [row["Function Name"] for row in rows]
    relu = rows[names.index("aten.relu.default")]
    assert relu["Input Shape Range"] == relu["Output Shape Range"] == "[rank changes]"
    assert names.index("aten.relu.default") < names.index("aten.neg.default")  # those that change come first
