"""A whole run: the copy, the reports, and what happens to files that are not plain."""

import csv
import os
import re
import sys
import xml.etree.ElementTree as ET
import zipfile
from html.parser import HTMLParser

import pytest

pytest.importorskip("libcst")
from softnpu.cli import ms_fmk_transplt, pytorch_gpu2npu
from softnpu.migrate import project

CUDA = "import torch\nx = torch.ones(1).cuda()  # naïve\n"
NPU = "import torch_npu\nimport torch\nx = torch.ones(1).npu()  # naïve\n"


@pytest.fixture
def sample(tmp_path):
    root = tmp_path / "demo"
    (root / "pkg" / "empty").mkdir(parents=True)
    (root / "train.py").write_text(CUDA + "torch.nn.DataParallel(x)\n", encoding="utf-8")
    (root / "pkg" / "crlf.py").write_bytes(CUDA.replace("\n", "\r\n").encode())
    (root / "pkg" / "bom.py").write_bytes(b"\xef\xbb\xbf" + CUDA.encode())
    (root / "pkg" / "latin.py").write_bytes(("# -*- coding: latin-1 -*-\n" + CUDA).encode("latin-1"))
    (root / "pkg" / "old.py").write_text("print 'cuda'\n")
    (root / "pkg" / "bad.py").write_bytes(b"x = '\xff\xfe cuda'\n")
    (root / "pkg" / "no_newline.py").write_text("import torch\nx.cuda()")
    (root / "notes.ipynb").write_text('{"cells": ["torch.cuda"]}')
    (root / "config.yaml").write_text("lr: 1\ndevice: cuda\n")
    (root / "run.sh").write_text("echo run\n")
    (root / "run.sh").chmod(0o755)
    (root / "link.py").symlink_to("train.py")
    (root / "loop").symlink_to("..")
    (root / "outside.py").symlink_to("/etc/hostname.py")
    return root


def run(*words, answer=None, monkeypatch=None, status=0):
    if monkeypatch is not None:
        import io

        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert ms_fmk_transplt.main([str(argument) for argument in words]) == status


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_copy_keeps_everything_but_the_edits(sample, tmp_path, capsys):
    run("-i", sample, "-o", tmp_path / "out")
    out = tmp_path / "out" / "demo_msft"
    assert os.listdir(tmp_path / "out") == ["demo_msft"]
    assert (out / "train.py").read_text(encoding="utf-8") == NPU + "torch.nn.DataParallel(x)\n"
    assert (out / "pkg" / "crlf.py").read_bytes() == NPU.replace("\n", "\r\n").encode()
    assert (out / "pkg" / "bom.py").read_bytes() == b"\xef\xbb\xbf" + NPU.encode()
    assert (out / "pkg" / "latin.py").read_bytes() == ("# -*- coding: latin-1 -*-\n" + NPU).encode("latin-1")
    assert (out / "pkg" / "no_newline.py").read_text() == "import torch_npu\nimport torch\nx.npu()"
    for name in ("pkg/old.py", "pkg/bad.py", "notes.ipynb", "config.yaml"):
        assert (out / name).read_bytes() == (sample / name).read_bytes()
    assert (out / "pkg" / "empty").is_dir()
    assert os.access(out / "run.sh", os.X_OK)
    assert os.readlink(out / "link.py") == "train.py"
    assert (out / "loop").is_symlink()
    printed = capsys.readouterr().out
    assert "pkg/old.py: not valid Python 3" in printed
    assert "pkg/bad.py: its encoding cannot be read" in printed
    assert "config.yaml:2: speaks of CUDA" in printed
    assert "outside.py: a link that leads nowhere" in printed
    assert printed.endswith("MsFmkTransplt run success, welcome to the next use.\n")


def test_hidden_folders_and_environments_are_copied_as_they_are(sample, tmp_path, capsys):
    for folder in (".git/hooks", "pkg/.venv/lib", "env", "__pycache__"):
        (sample / folder).mkdir(parents=True)
        (sample / folder / "hook.py").write_text(CUDA, encoding="utf-8")
    (sample / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (sample / ".git" / "config.yaml").write_text("device: cuda\n")
    (sample / ".hidden.py").write_text(CUDA, encoding="utf-8")
    run("-i", sample, "-o", tmp_path / "out")
    out = tmp_path / "out" / "demo_msft"
    for folder in (".git/hooks", "pkg/.venv/lib", "env"):
        assert (out / folder / "hook.py").read_text(encoding="utf-8") == CUDA
    assert not (out / "__pycache__").exists()
    assert (out / ".hidden.py").read_text(encoding="utf-8") == NPU  # a file of the project
    printed = capsys.readouterr().out
    assert ".git: a folder of a tool; its Python files (1) were copied unchanged" in printed
    assert "pkg/.venv: a folder of a tool" in printed and "env: a virtual environment" in printed
    assert ".git/config.yaml" not in printed
    assert not any("hook" in row["File"] for row in read(out / "change_list.csv"))


def test_an_entry_file_of_a_hidden_folder_is_refused(sample, tmp_path, capsys):
    (sample / ".git").mkdir()
    (sample / ".git" / "main.py").write_text(CUDA, encoding="utf-8")
    run("-i", sample, "-o", tmp_path / "out", "distributed", "-m", ".git/main.py", status=1)
    assert "is in a folder that is copied unchanged" in capsys.readouterr().err


def test_reports_tell_every_change(sample, tmp_path):
    run("-i", sample, "-o", tmp_path)
    out = tmp_path / "demo_msft"
    changes = [row for row in read(out / "change_list.csv") if row["File"] == "train.py"]
    assert [list(row.values())[1:4] for row in changes] == [["1", "1", "INSERT"], ["2", "2", "MODIFY"]]
    assert list(changes[0]) == ["File", "Start Line", "End Line", "Operation Type", "Message"]
    (unsupported,) = read(out / "unsupported_op.csv")
    assert list(unsupported) == ["File", "Start Line", "End Line", "OP", "Tips"]
    assert unsupported["OP"] == "torch.nn.DataParallel" and unsupported["Start Line"] == "3"
    lines = (out / "msFmkTranspltlog.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[(INFO|WARNING|ERROR)\] ", line) for line in lines)
    assert any(
        "line: 2 ~ 2  Operation Type: MODIFY  Message: Change the function cuda to npu" in line for line in lines
    )
    assert lines[-1].endswith("[INFO] MsFmkTransplt run success, welcome to the next use.")


def test_the_xlsx_is_a_workbook_with_the_same_rows(sample, tmp_path):
    run("-i", sample, "-o", tmp_path)
    with zipfile.ZipFile(tmp_path / "demo_msft" / "unsupported_op.xlsx") as archive:
        assert archive.testzip() is None
        parts = {name: ET.fromstring(archive.read(name)) for name in archive.namelist()}
    space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    rows = parts["xl/worksheets/sheet1.xml"].findall(".//m:row", space)
    texts = [["".join(cell.itertext()) for cell in row] for row in rows]
    assert texts[0] == ["File", "Start Line", "End Line", "OP", "Tips"]
    assert texts[1][:4] == ["train.py", "3", "3", "torch.nn.DataParallel"]
    named = {"/" + name for name in parts}
    overrides = {entry.get("PartName") for entry in parts["[Content_Types].xml"] if entry.get("PartName")}
    assert overrides <= named


class _Page(HTMLParser):
    VOID = ("meta", "col")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.text = [], set(), set(), []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert not {"src", "onclick"} & values.keys() and tag not in ("script", "link")
        if "id" in values:
            assert values["id"] not in self.ids
            self.ids.add(values["id"])
        if "href" in values:
            self.links.add(values["href"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_and_its_links_lead_to_lines(sample, tmp_path):
    (sample / "tags.py").write_text("import torch\ns = '<b>&amp;</b>'\n" + "a = 1\n" * 50 + "x.cuda('<i>')\n")
    run("-i", sample, "-o", tmp_path)
    page = _Page()
    page.feed((tmp_path / "demo_msft" / "diff_report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.links and all(link[0] == "#" and link[1:] in page.ids for link in page.links)
    text = "".join(page.text)
    assert "x.npu('<i>')" in text and "46 equal lines" in text


def test_a_second_run_changes_nothing(sample, tmp_path):
    run("-i", sample, "-o", tmp_path / "one", "-sim", "-s")
    run("-i", tmp_path / "one" / "demo_msft", "-o", tmp_path / "two", "-sim", "-s")
    assert read(tmp_path / "two" / "demo_msft_msft" / "change_list.csv") == []
    assert (tmp_path / "two/demo_msft_msft/train.py").read_bytes() == (tmp_path / "one/demo_msft/train.py").read_bytes()


def test_an_existing_output_is_not_touched_without_a_yes(sample, tmp_path, monkeypatch, capsys):
    run("-i", sample, "-o", tmp_path)
    mine = tmp_path / "demo_msft" / "mine.txt"
    mine.write_text("mine")
    log = tmp_path / "demo_msft" / "msFmkTranspltlog.txt"
    log.write_text("old")
    for answer in ("", "no\n", "yes\n"):
        run("-i", sample, "-o", tmp_path, answer=answer, monkeypatch=monkeypatch, status=1)
        assert log.read_text() == "old"
    assert "Nobody is there to confirm it" in capsys.readouterr().err
    for answer in ("c\n", "continue\n"):
        run("-i", sample, "-o", tmp_path, answer=answer, monkeypatch=monkeypatch)
    assert "run success" in log.read_text() and mine.read_text() == "mine"
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith(".")) == []


def test_large_inputs_are_asked_about(sample, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(project, "MAX_FILES", 2)
    run("-i", sample, "-o", tmp_path / "o", answer="", monkeypatch=monkeypatch, status=1)
    assert "more than 2" in capsys.readouterr().err
    assert os.listdir(tmp_path / "o") == []
    run("-i", sample, "-o", tmp_path / "o", answer="c\n", monkeypatch=monkeypatch)


def test_the_output_may_lie_in_the_input(sample):
    run("-i", sample, "-o", sample)
    assert not (sample / "demo_msft" / "demo_msft").exists()
    assert (sample / "train.py").read_text(encoding="utf-8").startswith(CUDA)
    run("-i", sample, "-o", sample, "distributed", "-m", "train.py")
    assert not (sample / "demo_msft_multi" / "demo_msft").exists()


def test_a_single_file_and_the_distributed_mode(sample, tmp_path):
    run("-i", sample / "train.py", "-o", tmp_path, "distributed", "-m", sample / "train.py", "-t", "x")
    out = tmp_path / "train_msft_multi"
    assert sorted(os.listdir(out)) == [
        "change_list.csv", "diff_report.html", "msFmkTranspltlog.txt", "run_distributed_npu.sh", "train.py", "unsupported_op.csv", "unsupported_op.xlsx",
    ]  # fmt: skip
    script = (out / "run_distributed_npu.sh").read_text()
    for text in (
        "MASTER_ADDR=",
        "MASTER_PORT=29688",
        "HCCL_WHITELIST_DISABLE=1",
        "NPUS=($(seq 0 7))",
        "NPU_CALCULATE_DEVICE=",
        "RANK=",
        "RANK_SIZE=",
        "DEVICE_ID=",
        "output_npu_${i}.log",
        "train.py",
    ):
        assert text in script
    assert os.system(f"bash -n '{out}/run_distributed_npu.sh'") == 0
    assert os.access(out / "run_distributed_npu.sh", os.X_OK)


def test_dry_run_prints_a_diff_and_writes_nothing(sample, tmp_path, capsys):
    run("-i", sample / "train.py", "-o", tmp_path / "none", "--dry-run")
    assert "-x = torch.ones(1).cuda()" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_modelarts_adds_its_package(sample, tmp_path):
    (sample / "train.py").write_text("import os\nif __name__ == '__main__':\n    pass\n")
    run("-i", sample, "-o", tmp_path, "-m")
    assert "import ascend_modelarts_function\n" in (tmp_path / "demo_msft/train.py").read_text()
    assert (tmp_path / "demo_msft/ascend_modelarts_function/path_mapping_config.py").exists()


def test_gpu2npu_needs_the_version_and_writes_its_lists(sample, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # it would stay loaded for all tests that follow
    with pytest.raises(SystemExit):
        pytorch_gpu2npu.main(["-i", str(sample), "-o", str(tmp_path)])
    assert pytorch_gpu2npu.main(["-i", str(sample), "-o", str(tmp_path), "-v", "2.8.0"]) == 0
    folder = tmp_path / "demo_msft" / "transplant_result_file"
    assert sorted(os.listdir(folder)) == [
        "affinity_api_call.csv", "api_performance_advice.csv", "api_precision_advice.csv", "cuda_op_list.csv", "unknown_api.csv", "unsupported_api.csv",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-i", "{}/none", "-o", "{}"], "does not exist"),
        (["-i", "{}/demo/run.sh", "-o", "{}"], "not a Python file"),
        (["-i", "{}/demo", "-o", "{}/demo/run.sh"], "is a file"),
        (["-i", "{}/demo", "-o", "{}", "-r", "{}/none.json"], "rule file"),
        (["-i", "{}/demo", "-o", "{}", "distributed", "-m", "none.py"], "entry file none.py"),
        (["-i", "{}/demo", "-o", "{}", "distributed", "-m", "train.py", "-t", "a b"], "'a b'"),
    ],
)
def test_wrong_options_are_refused(sample, tmp_path, capsys, words, text):
    run(*(argument.format(tmp_path) for argument in words), status=1)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "demo_msft").exists()


@pytest.mark.parametrize(
    "words", [[], ["-i", "x"], ["-i", "x", "-o", "y", "-v", "9.9"], ["-i", "x", "-o", "y", "distributed"]]
)
def test_missing_options_end_with_status_2(words):
    with pytest.raises(SystemExit) as caught:
        ms_fmk_transplt.main(words)
    assert caught.value.code == 2


def test_many_files_in_processes(tmp_path):
    root = tmp_path / "many"
    root.mkdir()
    for number in range(project._PARALLEL + 1):
        (root / f"f{number}.py").write_text(CUDA, encoding="utf-8")
    run("-i", root, "-o", tmp_path)
    assert len(read(tmp_path / "many_msft" / "change_list.csv")) == 2 * (project._PARALLEL + 1)


def test_what_cannot_be_copied_is_told_and_the_rest_is_done(sample, tmp_path, capsys):
    os.mkfifo(sample / "pipe")
    run("-i", sample, "-o", tmp_path, status=1)
    printed = capsys.readouterr().out
    assert "pipe: neither a file nor a folder; it is missing in the output" in printed
    assert printed.endswith("MsFmkTransplt run failed!\n")
    assert (tmp_path / "demo_msft" / "train.py").exists()


def test_a_defect_in_one_file_does_not_cost_the_others(sample, tmp_path, capsys, monkeypatch):
    real = project.convert

    def fail(source, options, main=False):
        if "DataParallel" in source.text:
            raise KeyError("defect")
        return real(source, options, main)

    monkeypatch.setattr(project, "convert", fail)
    run("-i", sample, "-o", tmp_path)
    assert "train.py: the conversion failed (KeyError: 'defect')" in capsys.readouterr().out
    assert (tmp_path / "demo_msft/train.py").read_bytes() == (sample / "train.py").read_bytes()
    assert (tmp_path / "demo_msft/pkg/crlf.py").read_bytes() != (sample / "pkg/crlf.py").read_bytes()


def test_a_rule_that_does_not_fit_the_encoding_leaves_the_file(sample, tmp_path, capsys):
    rule = tmp_path / "rule.json"
    rule.write_text('{"rules": {"ArgsModifyRule": [{"func_name": "ones", "arg_idx": 0, "arg_new": "\'\u5927\'"}]}}')
    run("-i", sample, "-o", tmp_path, "-r", rule)
    assert "pkg/latin.py: the conversion failed (UnicodeEncodeError" in capsys.readouterr().out
    assert "torch.ones('大').npu()" in (tmp_path / "demo_msft/train.py").read_text(encoding="utf-8")
