"""The short cuts that make large projects bearable: they say the same as the long way."""

import ast
import gc

import pytest

pytest.importorskip("libcst")
import libcst as cst

from softnpu.migrate import convert as conversion
from softnpu.migrate.convert import Options, convert
from softnpu.migrate.project import convert_file
from softnpu.migrate.reading.bindings import Bindings
from softnpu.migrate.reading.findings import may_matter
from softnpu.migrate.reading.names import Names
from softnpu.migrate.reading.source import Source
from softnpu.migrate.rules.rule_set import built_in

SOURCES = {
    "plain": "import torch.cuda.amp as amp\nfrom torch import cuda\namp.autocast\ncuda.Stream\n",
    "try and except": "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    from x import autocast\nautocast.x\n",
    "a parameter hides it": "from torch import cuda\ndef f(cuda):\n    return cuda.Stream\ncuda.Event\n",
    "a loop hides it": "from torch import cuda\nprint([cuda.Event for cuda in x], cuda.Stream)\n",
    "a method of that name": "from torch import cuda\nclass A:\n    def cuda(self):\n        return cuda.Stream\n",
    "in one function only": "def f():\n    from torch import cuda\n    cuda.Stream\ndef g(cuda):\n    cuda.Event\n",
    "two functions": "def f():\n    import numpy as c\n    c.x\ndef g():\n    from torch import cuda as c\n    c.y\n",
    "none later": "try:\n    import apex\nexcept ImportError:\n    apex = None\napex.amp\n",
    "star": "from utils import *\ntorch.cuda.Stream\ntorch = 1\n",
    "unbound": "from utils import *\ntorch.cuda.Stream\n",
    "relative": "from . import torch\nfrom .cuda import amp\ntorch.cuda.Stream\namp.x\n",
    "exception and match": "import torch.cuda as c\ntry:\n    c.a\nexcept E as c:\n    c.b\ndef f(x):\n    match x:\n        case [c, *_]:\n            return c.d\n",
}


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES)
def test_names_mean_the_same_with_and_without_scopes(text):
    fast, slow = Names(cst.parse_module(text), ast.parse(text)), Names(cst.parse_module(text))

    class Reader(cst.CSTVisitor):
        def __init__(self, names):
            super().__init__()
            self.names, self.seen = names, []

        def visit_Attribute(self, node):
            full = self.names.full(node)
            self.seen.append("" if full.startswith(".") else full)

        def visit_Import(self, node):
            return False

        visit_ImportFrom = visit_Import

    readers = Reader(fast), Reader(slow)
    for names, reader in zip((fast, slow), readers, strict=True):
        names.module.visit(reader)
    assert readers[0].seen == readers[1].seen
    assert readers[0].seen


def test_scopes_are_asked_for_only_where_the_place_matters():
    for name, wanted in (("plain", {"torch.cuda"}), ("two functions", None), ("a parameter hides it", None)):
        bound = Bindings(ast.parse(SOURCES[name]))
        assert bound.meanings("c" if name == "two functions" else "cuda") == wanted
    names = Names(cst.parse_module(SOURCES["plain"]), ast.parse(SOURCES["plain"]))
    names.full(cst.ensure_type(names.module.body[2].body[0], cst.Expr).value)
    assert "_scopes" not in vars(names)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nx.cuda()\n",
        "from torch import distributed as d\nd.is_nccl_available()\n",
        "b = 'nccl'\n",
        "x = 'gpu:0'\n",
        "import torch.profiler as p\np.profile(activities=[p.ProfilerActivity.CUDA])\n",
        "from apex.normalization import FusedLayerNorm as N\nN(3)\n",
        "from torch import fft as f\nf.fft(x)\n",
        "y = x.nonzero()\n",
        "import flash_attn\n",
    ],
)
def test_no_file_that_matters_is_passed_over(text, monkeypatch):
    assert may_matter(text, built_in(text))
    source = Source(text, "utf-8", False)
    short = convert(source, Options())
    monkeypatch.setattr(conversion, "may_matter", lambda *_: True)
    long = convert(source, Options())
    assert (short.text, short.findings) == (long.text, long.findings)
    assert long.text != text or long.findings


def test_other_files_are_read_only_once(monkeypatch):
    monkeypatch.setattr(conversion.Uses, "read", lambda *_: pytest.fail("looked at closely"))
    text = "import torch\n\ndef f(x):\n    return torch.relu(x).load('a.transformer')\n"
    assert convert(Source(text, "utf-8", False), Options()).text == text


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_before(tmp_path, enabled):
    (tmp_path / "a.py").write_text("import torch\nx.cuda()\n")
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        assert convert_file((tmp_path, (tmp_path / "a.py").relative_to(tmp_path), Options(), False)).changed
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if before else gc.disable()
