"""PyTorch's operator database on npu: a fixed sample here, all of it in the slow run (also `python -m tests.torch.aten.op_db_run`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from tests.torch.aten.op_db_page import joined, page  # noqa: E402

PROGRAM = Path(__file__).with_name("op_db_run.py")
# Each stands for a way through the backend: structured, views, indices, random, lists, conj, own kernels, host arguments, resizing.
SAMPLE = (
    "add,mul,sub,div,addr,addmm,mm,bmm,matmul,einsum,sum,mean,std,var_mean,cumsum,sort,topk,mode,median,argmax,any,all,"
    "where,masked_fill,masked_select,gather,scatter,scatter_add,index_put,index_select,index_add,take,put,nonzero,unique,"
    "cat,stack,split,chunk,tensor_split,view,reshape,permute,transpose,expand,unfold,as_strided,diagonal,squeeze,"
    "conj,conj_physical,real,imag,view_as_real,view_as_complex,resolve_conj,_refs.add,arange,linspace,eye,full,zeros,"
    "empty,new_empty,randn,normal,bernoulli,multinomial,uniform,clone,contiguous,to,resize_,fill,zero_,clamp,relu,exp,"
    "nn.functional.conv2d,nn.functional.conv_transpose2d,nn.functional.linear,nn.functional.batch_norm,"
    "nn.functional.layer_norm,nn.functional.group_norm,nn.functional.softmin,softmax,log_softmax,nn.functional.gelu,"
    "nn.functional.dropout,nn.functional.embedding,nn.functional.embedding_bag,nn.functional.cross_entropy,"
    "nn.functional.nll_loss,nn.functional.ctc_loss,nn.functional.scaled_dot_product_attention,nn.functional.max_pool2d,"
    "nn.functional.avg_pool3d,nn.functional.interpolate,nn.functional.grid_sample,nn.functional.pixel_unshuffle,"
    "linalg.inv,linalg.svd,linalg.solve,linalg.eigh,linalg.lu_solve,svd,fft.fft,fft.irfft,stft,histc,bincount"
)

MODULES = (
    "nn.Linear,nn.Conv2d,nn.ConvTranspose2d,nn.BatchNorm2d,nn.LayerNorm,nn.LSTM,nn.GRUCell,nn.Embedding,nn.MultiheadAttention,"
    "nn.TransformerEncoderLayer,nn.CrossEntropyLoss,nn.MaxPool2d,nn.Dropout,nn.LazyConv1d"
)
OPTIMIZERS = "SGD,Adam,AdamW,LBFGS,RMSprop,Muon"
# docs/support/torch_operators.md has the reasons
LEFT = {"to_sparse", "nn_functional_linear_cross_entropy_chunked", "nn_functional_linear_cross_entropy_chunked_none"}


def run(*arguments: str, limit: float) -> tuple[str, list[dict[str, str]]]:
    """The program in a process of its own: torch's test code changes settings when it is imported."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=limit, check=False
    )
    assert done.stdout, done.stderr[-3000:]
    head, _, listed = done.stdout.partition("\n")
    return head, json.loads(listed)


def counted(head: str) -> list[int]:
    return [int(number) for number in re.findall(r" of (\d+) cases", head)]


def test_a_fixed_sample_gives_what_the_cpu_gives() -> None:
    names = ",".join((SAMPLE, MODULES, OPTIMIZERS))
    head, failures = run(
        *("--what", "op,module,optim", "--only", names, "--dtypes", "float32,int64,complex64", "--samples", "2"),
        limit=110,
    )
    assert failures == [], head
    operators, modules, optimizers = counted(head)
    assert operators > 900 and modules > 55 and optimizers > 12, head


def test_the_program_finds_a_difference(tmp_path: Path) -> None:
    """A run that could not fail would prove nothing: here an operator is made wrong on npu."""
    spoilt = tmp_path / "spoilt.py"
    spoilt.write_text(
        "import runpy, sys, torch, torch_npu\n"
        "library = torch.library.Library('aten', 'IMPL')\n"
        "library.impl('asinh.out', lambda x, *, out: out.copy_(x), 'PrivateUse1', allow_override=True)\n"
        f"sys.argv = ['op_db_run.py', '--only', 'asinh', '--dtypes', 'float32', '--forms', 'forward,out,backward']\n"
        f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, str(spoilt)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr[-2000:]
    assert {failure["form"] for failure in json.loads(done.stdout.partition("\n")[2])} >= {"forward", "out"}


@pytest.mark.slow
def test_all_operators_and_types() -> None:
    """At least 99 % of what the cpu can do, of every operator in every dtype; what is left has its reason here."""
    head, failures = run("--what", "op,module,optim", "--dtypes", "all", "--samples", "4", limit=3600)
    assert all(float(share) >= 99 for share in re.findall(r"([\d.]+)% of", head)), (head, failures)
    assert {failure["op"] for failure in failures} <= LEFT, (head, failures)
    operators, modules, optimizers = counted(head)
    assert operators > 22_000 and modules > 700 and optimizers > 100, head


def test_the_page_says_what_fails_and_why(tmp_path: Path) -> None:
    """Two runs joined: counts add up, a known failure has its reason, an unknown one is shown as it is."""
    failed = [
        {"op": "to_sparse", "dtype": "float32", "form": "forward", "reason": "x"},
        {"op": "add", "dtype": "float32", "form": "out", "reason": "off by one"},
    ]
    one = {"op": {"table": {"float32 forward": {"passed": 3, "failed": 1}}, "failures": failed, "left_out": {"cpu": 2}}}
    two = {"op": {"table": {"float32 out": {"passed": 5}, "int64 out": {"passed": 7}}, "failures": [], "left_out": {}}}
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, found in zip(files, (one, two), strict=True):
        file.write_text(json.dumps(found))
    reports = joined(map(str, files))
    text = page(reports, 8, 5)
    assert counted(reports["op"].headline()) == [16] and "15 of 16 cases pass (93.75%)" in text
    assert "| float32 | 3/4 | 5 |" in text and "| int64 |  | 7 |" in text
    assert "- `to_sparse` (float32; forward). Sparse layouts are refused" in text
    assert "- `add` (float32; out). Not explained: off by one" in text
