"""The migration tool against the torch and torch_npu that are installed."""

import pytest
import torch
import torch_npu

pytest.importorskip("libcst")
from softnpu.migrate.analysis.analyse import Analysis, Inspection, unknown_names
from softnpu.migrate.reading.findings import Finding
from softnpu.migrate.rules.rule_set import built_in


def test_every_name_that_is_rewritten_exists():
    """torch.cuda's public members: renamed to something that torch.npu has, or kept."""
    rules = built_in()
    for name in torch.cuda.__all__:
        new = rules.rename(f"torch.cuda.{name}")
        if not new.startswith("torch.cuda"):
            value = torch_npu if new.startswith("torch_npu") else torch
            for part in new.split(".")[1:]:
                assert hasattr(value, part), new
                value = getattr(value, part)


def test_names_behind_a_missing_library_or_a_missing_cuda_are_not_unknown(tmp_path):
    used = ["torch.version.cuda.split", "torch.utils.tensorboard.SummaryWriter", "torch.nothing", "torch.nn.nothing"]
    found = Inspection("a.py", torch=[Finding(1, 1, name, None) for name in used])
    assert [name for _, name in unknown_names(Analysis(tmp_path, [found]))] == used[2:]
