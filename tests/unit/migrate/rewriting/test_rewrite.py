"""The rewriting of names, calls, strings and imports. The pairs marked "guide" are the tables of the porting guide."""

import ast

import pytest

pytest.importorskip("libcst")
from softnpu.migrate.convert import Options, convert
from softnpu.migrate.reading.source import Source


def migrate(text, head="import torch\n", **options):
    """The converted text without the line `import torch_npu` and the head."""
    source = Source(head + text, "utf-8", False)
    done = convert(source, Options(**options))
    assert not done.error
    ast.parse(done.text)
    again = convert(Source(done.text, "utf-8", False), Options(**options))
    assert again.text == done.text, "a second run changes something"
    assert (done.text == source.text) == (not done.changes)
    new_head = (
        head if done.text == source.text else head.replace("import torch\n", "import torch_npu\nimport torch\n", 1)
    )
    assert done.text.startswith(new_head)
    return done.text[len(new_head) :]


GUIDE = [
    ("torch.cuda.is_available()", "torch.npu.is_available()"),
    ("torch.cuda.current_device()", "torch.npu.current_device()"),
    ("torch.cuda.device_count()", "torch.npu.device_count()"),
    ("torch.cuda.set_device()", "torch.npu.set_device()"),
    ("torch.tensor([1,2,3]).is_cuda", "torch.tensor([1,2,3]).is_npu"),
    ("torch.tensor([1,2,3]).cuda()", "torch.tensor([1,2,3]).npu()"),
    ('torch.tensor([1,2,3]).to("cuda")', 'torch.tensor([1,2,3]).to("npu")'),
    ("torch.cuda.synchronize()", "torch.npu.synchronize()"),
    ("torch.cuda.device", "torch.npu.device"),
    ("torch.cuda.Stream(device)", "torch.npu.Stream(device)"),
    ("torch.cuda.stream(Stream)", "torch.npu.stream(Stream)"),
    ("torch.cuda.current_stream()", "torch.npu.current_stream()"),
    ("torch.cuda.default_stream()", "torch.npu.default_stream()"),
    ('device = torch.device("cuda:0")', 'device = torch.device("npu:0")'),
    ("torch.autograd.profiler.profile\\\n(use_cuda=True)", "torch.autograd.profiler.profile\\\n(use_npu=True)"),
    ("torch.cuda.Event()", "torch.npu.Event()"),
    *(
        (
            f"torch.tensor([1,2,3],dtype=torch.{kind},device='cuda')",
            f"torch.tensor([1,2,3],dtype=torch.{kind},device='npu')",
        )
        for kind in ("long", "int", "half", "float", "bool")
    ),
    *(
        (f"torch.cuda.{kind}Tensor([1,2,3])", f"torch.npu.{kind}Tensor([1,2,3])")
        for kind in ("Bool", "Float", "Int", "Long", "Half")
    ),
    ('CALCULATE_DEVICE = "gpu:0"', 'CALCULATE_DEVICE = "npu:0"'),
    ("torch.cuda.set_device(CALCULATE_DEVICE)", "torch.npu.set_device(CALCULATE_DEVICE)"),
    ("model = model.cuda() # 写法1", "model = model.npu() # 写法1"),
    ("loc = 'cuda:{}'.format(args.gpu)", "loc = 'npu:{}'.format(args.gpu)"),
    ("dist.init_process_group(backend='nccl')", "dist.init_process_group(backend='hccl')"),
]


@pytest.mark.parametrize(("old", "new"), GUIDE)
def test_the_tables_of_the_guide(old, new):
    assert migrate(old + "\n") == new + "\n"


PAIRS = [
    # calls, attributes and device expressions
    ("x = x.cuda(args.gpu, non_blocking=True)", "x = x.npu(args.gpu, non_blocking=True)"),
    (
        "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "d = torch.device('npu' if torch.npu.is_available() else 'cpu')",
    ),
    ("with torch.autocast(device_type='cuda'): pass", "with torch.autocast(device_type='npu'): pass"),
    ("s = torch.cuda.amp.GradScaler(enabled=a)", "s = torch.npu.amp.GradScaler(enabled=a)"),
    ("y = list(map(torch.Tensor.cuda, xs))", "y = list(map(torch.Tensor.npu, xs))"),
    ("if d.type == 'cuda' and t.is_cuda: pass", "if d.type == 'npu' and t.is_npu: pass"),
    ("except_ = torch.cuda.OutOfMemoryError", "except_ = torch.OutOfMemoryError"),
    ("g = torch.cuda.CUDAGraph()", "g = torch.npu.NPUGraph()"),
    ("dist.get_rank().cuda", "dist.get_rank().cuda"),
    # strings
    ("a = f'cuda:{rank}'", "a = f'npu:{rank}'"),
    ("a = f'{x} on cuda:{rank}, {y}'", "a = f'{x} on npu:{rank}, {y}'"),
    ("a = 'cuda:' + str(i), 'cuda:%d' % i", "a = 'npu:' + str(i), 'npu:%d' % i"),
    (
        "p.add_argument('--d', default='cuda', choices=['cpu', 'cuda'])",
        "p.add_argument('--d', default='npu', choices=['cpu', 'npu'])",
    ),
    (
        "torch.set_default_tensor_type('torch.cuda.FloatTensor')",
        "torch.set_default_tensor_type('torch.npu.FloatTensor')",
    ),
    ("a = r'cuda', 'NCCL'", "a = r'npu', 'HCCL'"),
    ("a = f'\\ntorch.cuda.x: {y}'", "a = f'\\ntorch.npu.x: {y}'"),
    # what stays
    ("# torch.cuda.is_available() and .cuda()", "# torch.cuda.is_available() and .cuda()"),
    ('def f():\n    \'cuda\'\n    """torch.cuda"""', 'def f():\n    \'cuda\'\n    """torch.cuda"""'),
    (
        "a = 'my cuda device', 'barracuda:1', b'cuda', 'cuda: yes'",
        "a = 'my cuda device', 'barracuda:1', b'cuda', 'cuda: yes'",
    ),
    ("import os\np = os.path.join(root, 'cuda', 'x.cu')", "import os\np = os.path.join(root, 'cuda', 'x.cu')"),
    ("from pathlib import Path\np = Path('a') / 'cuda'", "from pathlib import Path\np = Path('a') / 'cuda'"),
    ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = True"),
    ("torch.cuda.nvtx.range_push('x')", "torch.cuda.nvtx.range_push('x')"),
    ("self.cuda = args.cuda", "self.cuda = args.cuda"),
    ("x = x.cuda()  # npu: ignore", "x = x.cuda()  # npu: ignore"),
    ("from numba import cuda\ncuda.jit()(f)", "from numba import cuda\ncuda.jit()(f)"),
    ("def f(torch):\n    return torch.cuda.thing", "def f(torch):\n    return torch.cuda.thing"),
    ("cupy = 1\nx.cuda_rng", "cupy = 1\nx.cuda_rng"),
    # methods of classes
    (
        "class A:\n    def cuda(self):\n        return self.b.cuda()\n    @property\n    def is_cuda(self): return 1",
        "class A:\n    def npu(self):\n        return self.b.npu()\n    @property\n    def is_npu(self): return 1",
    ),
    ("def cuda(x): return x", "def cuda(x): return x"),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_source_becomes_its_counterpart(old, new):
    assert migrate(old + "\n") == new + "\n"


IMPORTS = [
    ("import torch as t\n", "t.cuda.is_available()\n", "t.npu.is_available()\n"),
    ("import torch.cuda\n", "", "import torch.npu\n"),
    ("import torch.cuda.amp as amp\n", "amp.autocast()\n", "import torch.npu.amp as amp\namp.autocast()\n"),
    ("from torch.cuda.amp import autocast, GradScaler\n", "", "from torch.npu.amp import autocast, GradScaler\n"),
    ("from torch.cuda import amp\n", "amp.autocast()\n", "from torch.npu import amp\namp.autocast()\n"),
    ("from torch import cuda, nn\n", "cuda.empty_cache()\n", "from torch import npu as cuda, nn\ncuda.empty_cache()\n"),
    ("from torch import cuda as tc\n", "tc.empty_cache()\n", "from torch import npu as tc\ntc.empty_cache()\n"),
    ("from torch.cuda import amp, nvtx\n", "", "from torch.npu import amp; from torch.cuda import nvtx\n"),
    ("from torch.cuda import OutOfMemoryError\n", "", "from torch import OutOfMemoryError\n"),
    (
        "import torch\nfrom apex.normalization import FusedLayerNorm\n",
        "FusedLayerNorm(4)\n",
        "from torch.nn import LayerNorm as FusedLayerNorm\nFusedLayerNorm(4)\n",
    ),
    (
        "from torch.profiler import profile, ProfilerActivity\n",
        "profile(activities=[ProfilerActivity.CUDA])\n",
        "from torch_npu.profiler import profile, ProfilerActivity\nprofile(activities=[ProfilerActivity.NPU])\n",
    ),
    ("from torch.profiler import profile\n", "x.cuda()\n", "x.npu()\n"),
    (  # what torch_npu.profiler does not have stays torch's
        "from torch.profiler import ProfilerActivity, record_function\n",
        "torch.profiler.kineto_available(ProfilerActivity.CUDA)\n",
        "from torch_npu.profiler import ProfilerActivity; from torch.profiler import record_function\n"
        "torch.profiler.kineto_available(ProfilerActivity.NPU)\n",
    ),
]


@pytest.mark.parametrize(("head", "text", "new"), IMPORTS)
def test_imports_follow_their_names(head, text, new):
    done = convert(Source(head + text, "utf-8", False), Options())
    kept = [line for line in head.splitlines(True) if line in done.text and line not in new]
    assert done.text == "import torch_npu\n" + "".join(kept) + new
    assert convert(Source(done.text, "utf-8", False), Options()).text == done.text


PLACES = [
    ('"""Doc."""\nfrom __future__ import annotations\nimport os\nimport torch\nx.cuda()\n', 4),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None\nx.cuda()\n", 2),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nfrom torch import nn\nx.cuda()\n", 4),
    ("def f():\n    import torch\n    x.cuda()\n", 2),
    ("import numpy, torch\nx.cuda()\n", 1),
    ("import os\nx.cuda()\n", 0),
    ("import torch\nimport torch_npu\nx.cuda()\n", 0),
    ("from torch_npu.contrib import transfer_to_npu\nimport torch\nx.cuda()\n", 0),
    ("import torch\nx = 1\n", 0),
    ("import torch\nx.cuda()\ndef f():\n    import torch_npu\n", 1),
]


@pytest.mark.parametrize(("text", "line"), PLACES)
def test_import_torch_npu_goes_in_once_before_the_first_import_of_torch_that_runs(text, line):
    done = convert(Source(text, "utf-8", False), Options())
    lines = done.text.splitlines()
    before = text.splitlines()
    if not line:
        assert len(lines) == len(before)
        return
    indent = before[line - 1][: len(before[line - 1]) - len(before[line - 1].lstrip())]
    assert lines[line - 1] == indent + "import torch_npu"
    assert done.text.count("import torch_npu") == text.count("import torch_npu") + 1
    compile(done.text, "x", "exec")


def test_for_the_version_of_the_guide_the_import_is_the_guides():
    done = convert(Source("import torch\nx.cuda()\n", "utf-8", False), Options(version="1.5.0"))
    assert done.text == "import torch.npu\nimport torch\nx.npu()\n"
    assert convert(Source(done.text, "utf-8", False), Options(version="1.5.0")).text == done.text


def test_similar_replaces_calls_and_leaves_questions_about_types():
    new = migrate(
        "import torch.nn.functional as F\na = torch.nn.Conv3d(1, 1, 1); F.pad(a, p)\nisinstance(a, (torch.nn.Conv3d, int))\n",
        similar=True,
    )
    assert "a = ascend_function.similar_api.Conv3d(1, 1, 1); ascend_function.similar_api.pad(a, p)\n" in new
    assert "isinstance(a, (torch.nn.Conv3d, int))" in new
    assert new.count("import ascend_function\n") == 1


def test_what_has_no_counterpart_is_reported_with_a_tip():
    done = convert(
        Source(
            "import torch\ntorch.cuda.nvtx.range_push('a')\nimport cupy\ntorch.nn.DataParallel(\n    m)\n",
            "utf-8",
            False,
        ),
        Options(),
    )
    tips = {(finding.start_line, finding.name): finding.row.tip for finding in done.findings}
    assert set(tips) == {(2, "torch.cuda.nvtx.range_push"), (3, "cupy"), (4, "torch.nn.DataParallel")}
    assert all(tips.values())


@pytest.mark.parametrize("text", ["print 'x'.cuda\n", "def f(:\n  cuda\n", "x = '''cuda\n"])
def test_what_cannot_be_parsed_stays(text):
    done = convert(Source(text, "utf-8", False), Options())
    assert done.text == text
    assert "not valid Python" in done.error


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(:\n  x.cuda()\n", 1),
        ("import torch\nif x\n  y.cuda()\n", 2),
        ("import torch\nx.cuda()\n)\n", 3),
        ("for x in y:\n  a.cuda()\n b\n", 3),
        ("x.cuda()\ny = (1\nw = 3\n", 2),
    ],
)
def test_the_line_of_a_syntax_error(text, line):
    assert f"not valid Python 3 at line {line}, column " in convert(Source(text, "utf-8", False), Options()).error


NEWER = [
    "type A = int\n",
    "def first[T](x: T) -> T:\n    return x\n",
    "class Box[T: int]:\n    pass\n",
    's = f"{d["a"]}"\n',
    "s = f'{\nd\n}'\n",
    "",
]


@pytest.mark.parametrize("newer", NEWER)
def test_findings_in_syntax_that_this_python_may_not_know(newer):
    text = (
        "import torch\nfrom torch import nn\nimport torch.nn.parallel as p, os.path\nfrom torch.nn import DataParallel as D\n"
        + newer
        + "torch.nn.DataParallel(m)\nnn.DataParallel(\n    m, DataParallel=1)\nD(x)\nx.cuda()\n"
        "def DataParallel(D=None): pass\nimport cupy\nf(nn)[0].nonzero().a\nother.nn.DataParallel\n"
    )
    done = convert(Source(text, "utf-8", False), Options())
    first = text[: text.index("torch.nn.DataParallel(m)")].count("\n") + 1
    assert [(finding.start_line - first, finding.end_line - first, finding.name) for finding in done.findings] == [
        (0, 0, "torch.nn.DataParallel"),
        (1, 1, "torch.nn.DataParallel"),
        (3, 3, "torch.nn.DataParallel"),
        (6, 6, "cupy"),
        (7, 7, "torch.Tensor.nonzero"),
    ]
    assert "x.npu()" in done.text and not done.error


def test_a_file_that_knew_npu_before_is_to_be_looked_at():
    text = "import torch\nif d == 'cuda':\n    pass\nelif d == 'npu':\n    pass\n"
    done = convert(Source(text, "utf-8", False), Options())
    assert any("knew npu before" in warning for warning in done.warnings)
