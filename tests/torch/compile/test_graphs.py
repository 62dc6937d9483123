"""Graph capture and replay on npu: the recorded work runs again, on the same memory, with what is there now."""

from __future__ import annotations

import copy
import gc
from pathlib import Path

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.npu.graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
)

from tests.torch.networks import SMALL, loss_of  # isort: skip


def test_a_replay_uses_the_new_inputs() -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    captured = NPUGraph()
    with graph(captured):
        y = (x.t() * 2 + 1).sum(0)
    address = y.data_ptr()
    x.copy_(torch.ones(2, 3))
    captured.replay()
    assert y.data_ptr() == address
    assert y.tolist() == [9.0, 9.0]


def test_captured_work_has_not_run_yet() -> None:
    """A counter that existed before is as it was after the capture, and counts the replays."""
    counter, captured = torch.zeros(3, device="npu"), NPUGraph()
    with graph(captured):
        counter.add_(1)
        counter[1:].mul_(2)
    assert counter.tolist() == [0, 0, 0]
    for _ in range(3):
        captured.replay()
    assert counter.tolist() == [3, 14, 14]


def test_views_out_and_lists() -> None:
    x, out = torch.arange(4.0, device="npu"), torch.empty(4, device="npu")
    captured = NPUGraph()
    with graph(captured):
        left, right = x.chunk(2)
        torch.cat([right, left], out=out)
        values, places = torch.sort(out, descending=True)
        torch._foreach_add_([left, right], 10)
    x.copy_(torch.tensor([4.0, 3, 2, 1]))
    captured.replay()
    assert out.tolist() == [2, 1, 4, 3]
    assert values.tolist() == [4, 3, 2, 1]
    assert places.tolist() == [2, 3, 0, 1]
    assert x.tolist() == [14, 13, 12, 11]


def test_random_numbers_are_new_in_each_replay_and_follow_the_seed() -> None:
    captured = NPUGraph()
    torch.manual_seed(5)
    expected = torch.rand(8, device="npu")
    torch.manual_seed(5)
    with graph(captured):
        x = torch.rand(8, device="npu")
    captured.replay()
    first = x.clone()
    captured.replay()
    assert torch.equal(first, expected), "the capture itself uses no random numbers"
    assert not torch.equal(first, x)


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("name", ["resnet", "gpt2"])
def test_a_whole_training_step(name: str) -> None:
    """The losses of replayed steps are those of steps that are not captured."""
    torch.manual_seed(0)
    case = SMALL[name]
    eager = case.make().npu()
    model = copy.deepcopy(eager)
    batches = [tuple(one.npu() for one in case.batch()) for _ in range(5)]
    plain = torch.optim.SGD(eager.parameters(), lr=0.05, momentum=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, targets = (one.clone() for one in batches[0])
    for _ in range(2):
        step(eager, plain, *batches[0])
        step(model, optimizer, inputs, targets)
    captured = NPUGraph()
    with graph(captured):
        loss = step(model, optimizer, inputs, targets)
    for batch in batches:
        inputs.copy_(batch[0])
        targets.copy_(batch[1])
        captured.replay()
        assert loss.item() == pytest.approx(step(eager, plain, *batch).item(), rel=1e-5)


def test_the_current_stream_says_that_it_captures() -> None:
    assert not is_current_stream_capturing()
    with graph(NPUGraph()):
        assert is_current_stream_capturing()
    assert not is_current_stream_capturing()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.sum().item(), "reads a value of the device"),
        (lambda x: x[x > 0], "shape that depends on values"),
        (lambda x: x.nonzero(), "shape that depends on values"),
        (lambda x: x.cpu(), "copies to the host"),
    ],
)
def test_what_needs_the_host_is_refused(call: object, words: str) -> None:
    x, captured = torch.ones(3, device="npu"), NPUGraph()
    with pytest.raises(RuntimeError, match=f"not permitted when stream is capturing.*{words}"):
        with graph(captured):
            call(x)
    assert not is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        captured.replay()


def test_integer_indices_are_allowed() -> None:
    x, place, captured = torch.arange(5, device="npu"), torch.tensor([0, 4], device="npu"), NPUGraph()
    with graph(captured):
        y = x[place]
    place.copy_(torch.tensor([1, 2]))
    captured.replay()
    assert y.tolist() == [1, 2]


def test_states_of_a_graph() -> None:
    captured = NPUGraph()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        captured.capture_end()
    with pytest.raises(RuntimeError, match="pool"):
        captured.pool()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        captured.capture_begin(capture_error_mode="loose")
    pool = graph_pool_handle()
    assert pool != graph_pool_handle()
    x = torch.ones(2, device="npu")
    captured.capture_begin(pool=pool)
    with pytest.raises(RuntimeError, match="already"):
        NPUGraph().capture_begin()
    x += 1
    captured.capture_end()
    assert captured.pool() == pool
    with pytest.raises(RuntimeError, match="already owns"):
        captured.capture_begin()
    captured.reset()
    with pytest.raises(RuntimeError, match="replay"):
        captured.replay()


def test_a_graph_keeps_its_memory_until_reset() -> None:
    gc.collect()  # what earlier tests left behind must not go away in between
    before = torch.accelerator.memory_allocated()
    captured = NPUGraph()
    x = torch.ones(1 << 20, device="npu")
    with graph(captured):
        y = x + 1
    del x, y
    assert torch.accelerator.memory_allocated() - before >= 2 << 22
    captured.replay()
    captured.reset()
    assert torch.accelerator.memory_allocated() == before


def test_update_of_host_arguments(tmp_path: Path) -> None:
    x, captured = torch.arange(4.0, device="npu"), NPUGraph()
    with graph(captured, auto_dispatch_capture=True):
        y = torch.clamp(x, min=0, max=1)
        z = x + 1
    captured.update([{"max": 2}])
    captured.replay()
    assert (y.tolist(), z.tolist()) == ([0, 1, 2, 2], [1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="for 0 calls"):
        captured.update([{"actual_seq_lengths": [1]}])
    captured.debug_dump(str(tmp_path / "graph.txt"))
    assert (tmp_path / "graph.txt").read_text().split() == ["aten.clamp.default", "aten.add.Tensor"]


def test_task_groups_are_replaced() -> None:
    x, out, captured = torch.arange(3.0, device="npu"), torch.zeros(3, device="npu"), NPUGraph()
    stream = torch.Stream("npu")
    with graph(captured, stream=stream):
        graph_task_group_begin(stream)
        torch.mul(x, 2, out=out)
        handle = graph_task_group_end(stream)
        total = out.sum()
    other = torch.Stream("npu")
    graph_task_update_begin(other, handle)
    torch.mul(x, 5, out=out)
    graph_task_update_end(other)
    captured.replay()
    assert (out.tolist(), total.item()) == ([0, 5, 10], 15)
    with pytest.raises(RuntimeError, match="not capturing"):
        graph_task_group_begin(stream)
    graph_task_update_begin(other, handle)
    with pytest.raises(RuntimeError, match="1 calls cannot be updated with 0"):
        graph_task_update_end(other)


def test_graphed_callables_train_like_the_originals() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).npu()
    first = copy.deepcopy(plain)
    graphed = make_graphed_callables(first, (torch.randn(3, 4, device="npu", requires_grad=True),))
    mine, theirs = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (graphed, plain))
    for _ in range(5):
        x = torch.randn(3, 4, device="npu", requires_grad=True)
        y = x.detach().clone().requires_grad_()
        for model, optimizer, inputs in ((graphed, mine, x), (plain, theirs, y)):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        torch.testing.assert_close(x.grad, y.grad)
    for one, two in zip(graphed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    graphed.eval()
    assert graphed(torch.randn(7, 4, device="npu")).shape == (7, 2), "another mode runs the original"


def test_several_graphed_callables_and_their_rules() -> None:
    sample = torch.ones(2, 3, device="npu", requires_grad=True)
    double, shift = make_graphed_callables(
        (lambda a: a * 2, lambda a: {"out": a + 1}), ((sample,), (sample.detach().clone().requires_grad_(),))
    )
    x = torch.full((2, 3), 4.0, device="npu", requires_grad=True)
    y = shift(double(x))["out"]
    assert y.tolist() == [[9.0] * 3] * 2
    y.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    with pytest.raises(AssertionError, match="only Tensors"):
        make_graphed_callables(lambda a: a, (3,))
    module = nn.Linear(3, 3).npu()
    module.register_forward_hook(lambda *_: None)
    with pytest.raises(AssertionError, match="hooks"):
        make_graphed_callables(module, (sample,))


def test_what_looks_at_tensors_of_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([1.0, 2.0], device="npu")
    captured = torch.npu.NPUGraph()
    with torch.npu.graph(captured):
        y = x * 2
        torch_npu.print_npugraph_tensor(y, tensor_name="y")
        torch_npu.save_npugraph_tensor(y, save_path=str(tmp_path / "y.pt"))
        y.add_(1)
    assert capsys.readouterr().out == "", "captured work has not run yet"
    captured.replay()
    x.fill_(4)
    captured.replay()
    told = capsys.readouterr().out.splitlines()
    assert told == ["y: tensor([2., 4.], device='npu:0')", "y: tensor([8., 8.], device='npu:0')"]
    assert torch.load(tmp_path / "y.pt").tolist() == [2, 4]
    assert torch.load(tmp_path / "y_1.pt").tolist() == [8, 8]
    assert y.tolist() == [9, 9]
    torch_npu.print_npugraph_tensor(x)
    assert capsys.readouterr().out == "tensor([4., 4.], device='npu:0')\n"
    with pytest.raises(RuntimeError, match=r"on npu is expected but got cpu(?s:.*)ERR03001 GRAPH"):
        torch_npu.print_npugraph_tensor(torch.ones(1))


def test_graph_mode_of_the_older_interface() -> None:
    npu = torch.npu
    assert not npu.is_graph_mode()
    with pytest.raises(RuntimeError, match=r"must be graph mode(?s:.*)ERR03005"):
        npu.launch_graph()
    npu.enable_graph_mode()
    assert npu.is_graph_mode()
    x = torch.ones(3, device="npu") + 1
    npu.launch_graph()
    npu.disable_graph_mode()
    assert not npu.is_graph_mode()
    assert x.tolist() == [2, 2, 2]
    graphed = npu.make_replay_graph(lambda one: one * 3, (x,))
    assert graphed(x + 1).tolist() == [9, 9, 9]


def test_graph_handlers_and_error_lines() -> None:
    @torch.npu.register_npu_graph_handler(["npu_fused_infer_attention_score"])
    class Handler:
        pass

    assert Handler.__name__ == "Handler"
    for call in (torch.npu.NPUGraph().replay, torch.npu.NPUGraph().pool, lambda: torch.npu.NPUGraph().debug_dump("x")):
        with pytest.raises(
            RuntimeError, match=r"without a preceding successful capture\.\n\[ERROR\] .* ERR03005 GRAPH internal error"
        ):
            call()


@pytest.mark.parametrize("wait", [torch.npu.synchronize, lambda: torch.npu.current_stream().synchronize()])
def test_the_host_cannot_wait_inside_a_capture(wait) -> None:
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"), graph(NPUGraph()):
        x = x + 1
        wait()
    wait()
    with pytest.raises(RuntimeError, match="a graph is being captured"), graph(NPUGraph()), graph(NPUGraph()):
        pass
    assert not is_current_stream_capturing()
