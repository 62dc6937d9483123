"""PyTorch's operator database on npu: a fixed sample here, all of it in the slow run (also `python tests/torch/op_db_run.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")

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

# Sparse layouts are refused; for half precision torch picks this loss's chunks and accumulation from a table with rows for cpu and
# cuda only (_AUTO_DEFAULTS in linear_cross_entropy_options.py): with the cpu's row npu gives the cpu's values.
LEFT = {"to_sparse", "nn_functional_linear_cross_entropy_chunked", "nn_functional_linear_cross_entropy_chunked_none"}


def run(*arguments: str, limit: float) -> tuple[str, list[dict[str, str]]]:
    """The program in a process of its own: torch's test code changes settings when it is imported."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=limit, check=False
    )
    assert done.stdout, done.stderr[-3000:]
    head, _, listed = done.stdout.partition("\n")
    return head, json.loads(listed)


def test_a_fixed_sample_gives_what_the_cpu_gives() -> None:
    head, failures = run("--only", SAMPLE, "--dtypes", "float32,int64,complex64", "--samples", "2", limit=110)
    assert failures == [], head
    assert int(head.split(" of ")[1].split()[0]) > 900, head


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
    head, failures = run("--dtypes", "all", "--samples", "6", limit=3600)
    assert float(head.split("%")[0]) >= 99, (head, failures)
    assert {failure["op"] for failure in failures} <= LEFT, (head, failures)
