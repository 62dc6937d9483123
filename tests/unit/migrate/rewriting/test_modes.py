"""`-s` and `distributed`."""

import ast

import pytest

pytest.importorskip("libcst")
from softnpu.migrate.convert import Options, convert
from softnpu.migrate.reading.source import Source

DEVICE = "f'npu:{NPU_CALCULATE_DEVICE}'"


def migrate(text, main=False, **options):
    done = convert(Source(text, "utf-8", False), Options(**options), main)
    assert not done.error
    ast.parse(done.text)
    again = convert(Source(done.text, "utf-8", False), Options(**options), main)
    assert again.text == done.text
    return done


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.to('cuda:0')", f"x.to({DEVICE})"),
        ("x.to(device)", f"x.to({DEVICE})"),
        ("x.to(args.device, non_blocking=True)", f"x.to({DEVICE}, non_blocking=True)"),
        ("x.to(device=self.device)", f"x.to(device={DEVICE})"),
        ("x.cuda(args.gpu, non_blocking=True)", f"x.npu({DEVICE}, non_blocking=True)"),
        ("x.cuda()", "x.npu()"),
        ("torch.cuda.set_device(0)", f"torch.npu.set_device({DEVICE})"),
        ("torch.device('cuda', 1)", f"torch.device({DEVICE})"),
        ("torch.load(p, map_location='cuda:0')", f"torch.load(p, map_location={DEVICE})"),
        ("torch.load(p, map_location='cpu')", "torch.load(p, map_location='cpu')"),
        ("x.to('cpu')", "x.to('cpu')"),
        ("x.to(torch.float16)", "x.to(torch.float16)"),
        ("x.to(dtype)", "x.to(dtype)"),
        ("x.to(memory_format=torch.channels_last)", "x.to(memory_format=torch.channels_last)"),
        ("x.to(y.device)", "x.to(y.device)"),
        ("x.to(other)", "x.to(other)"),
        ("x.cuda(local_rank)", "x.npu(local_rank)"),
        ("torch.device('cuda' if ok else 'cpu')", "torch.device('npu' if ok else 'cpu')"),
    ],
)
def test_device_arguments_name_the_variable(old, new):
    text = migrate(f"import torch\n{old}\n", specify_device=True).text
    assert text.splitlines()[-1] == new
    assert ("NPU_CALCULATE_DEVICE = 0" in text) == ("NPU_CALCULATE_DEVICE" in new)
    assert "set_device(f" not in text or "set_device" in old  # no entry file: the current device is not touched


def test_an_entry_file_sets_the_device():
    text = migrate("import torch as t\n\nif __name__ == '__main__':\n    main()\n", specify_device=True).text
    assert text == (
        "import torch_npu\nimport torch as t\nimport os\nNPU_CALCULATE_DEVICE = 0\n"
        "if os.getenv('NPU_CALCULATE_DEVICE', '').isdigit():\n    NPU_CALCULATE_DEVICE = int(os.environ['NPU_CALCULATE_DEVICE'])\n"
        "if t.npu.current_device() != NPU_CALCULATE_DEVICE:\n    t.npu.set_device(f'npu:{NPU_CALCULATE_DEVICE}')\n"
        "\nif __name__ == '__main__':\n    main()\n"
    )


MAIN = """import os
import torch
from torch.utils.data import DataLoader

def main():
    data = make()
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, num_workers=2)
    test = DataLoader(make(), 2 + 2, False)
    own = DataLoader(data, sampler=mine)
    if big:
        model = Big()
    else:
        model = Small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        train(loader)

main()
"""


def test_a_script_becomes_distributed():
    done = migrate(MAIN, main=True, distributed=True)
    text = done.text
    size = "torch.distributed.get_world_size()"
    sampler = "torch.utils.data.distributed.DistributedSampler"
    assert (
        f"loader = DataLoader(data, batch_size=max(1, args.batch // {size}), shuffle=False, num_workers=2, "
        f"pin_memory=True, drop_last=True, sampler={sampler}(data))\n" in text
    )
    assert (
        f"test = DataLoader(npu_dataset_1 := make(), max(1, (2 + 2) // {size}), False, "
        f"pin_memory=True, drop_last=True, sampler={sampler}(npu_dataset_1))\n" in text
    )
    assert "own = DataLoader(data, sampler=mine)\n" in text
    assert any("line 9" in warning for warning in done.warnings)
    assert "        model = Small()\n    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):\n" in text
    assert "device_ids=[NPU_CALCULATE_DEVICE], broadcast_buffers=False)\n    optimizer" in text
    assert (
        "        loader.sampler.set_epoch(epoch)\n        test.sampler.set_epoch(epoch)\n        train(loader)\n"
        in text
    )
    assert "own.sampler" not in text
    assert text.index("init_process_group('hccl', rank=RANK, world_size=NPU_WORLD_SIZE)") < text.index("def main")
    assert text.count("import os") == 1


def test_the_model_that_is_not_there_is_told():
    done = migrate("import torch\nnet = torch.nn.Linear(1, 1)\n", main=True, distributed=True)
    assert any("'model'" in warning for warning in done.warnings)
    done = migrate("import torch\nnet = torch.nn.Linear(1, 1)\n", main=True, distributed=True, target_model="net")
    assert not done.warnings
    assert "    net = torch.nn.parallel.DistributedDataParallel(net, device_ids" in done.text
