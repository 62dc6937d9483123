"""apex.amp O1: which functions cast, the cache of weights, recurrent layers, attention, registered functions."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from apex import amp
from apex.amp import _amp_state, lists
from torch import Tensor, nn

from tests.torch.apex.runs import fresh_amp, pictures  # noqa: F401

HALF, FULL = torch.float16, torch.float32


@pytest.fixture
def on(fresh_amp: None) -> None:  # noqa: F811
    amp.initialize(nn.Linear(2, 2).npu(), verbosity=0)


def pair(*shape: int) -> tuple[Tensor, Tensor]:
    x = torch.rand(*shape).npu() + 0.1
    return x, x.half()


@pytest.mark.usefixtures("on")
def test_half_functions() -> None:
    for x in pair(3, 3):
        w = torch.ones(3, 3).npu()
        for found in (x @ w, torch.mm(x, w), x.matmul(w), w @ x, F.linear(x, w), torch.einsum("ij,jk->ik", x, w)):
            assert found.dtype == HALF
    image = torch.rand(1, 2, 5, 5).npu()
    assert nn.Conv2d(2, 3, 3).npu()(image).dtype == HALF
    assert nn.ConvTranspose2d(2, 3, 3).npu()(image.half()).dtype == HALF
    q = torch.rand(1, 2, 4, 8).npu()
    assert F.scaled_dot_product_attention(q, q.half(), q, torch.zeros(4, 4).npu()).dtype == HALF


@pytest.mark.usefixtures("on")
def test_float_functions() -> None:
    for x in pair(3, 3):
        for found in (
            x.exp(),
            torch.softmax(x, 0),
            F.log_softmax(x, 1),
            x**2,
            2**x,
            x.sum(),
            x.mean(),
            torch.var(x),
            x.norm(),
            F.gelu(x),
        ):
            assert found.dtype == FULL
        assert F.mse_loss(x, x).dtype == FULL
        assert nn.LayerNorm(3).npu()(x).dtype == FULL
        assert nn.BatchNorm1d(3).npu()(x).dtype == FULL
        assert F.cross_entropy(x, torch.tensor([0, 1, 2]).npu()).dtype == FULL
        assert nn.BCEWithLogitsLoss()(x, x).dtype == FULL


@pytest.mark.usefixtures("on")
def test_mixed_types_are_promoted_to_the_wider() -> None:
    x, h = pair(2, 3)
    v = x[0]
    for found in (
        x + h, h * x, torch.add(h, x), torch.cat([h, x]), torch.stack([x, h]), torch.where(x > 0.5, h, x), torch.addcmul(h, x, h),
        torch.dot(v, h[0]), v.half().dot(v), torch.linalg.cross(x, h), torch.tensordot(h, x.t(), 1), torch.atan2(h, x),
        h.scatter_add(0, torch.zeros(2, 3, dtype=torch.long).npu(), x), F.bilinear(h, h, torch.ones(2, 3, 3).npu()),
    ):  # fmt: skip
        assert found.dtype == FULL
    assert torch.dot(h[0], h[0]).dtype == HALF
    assert torch.equal(h < x, h.float() < x)


@pytest.mark.usefixtures("on")
def test_what_is_written_to_decides() -> None:
    x, h = pair(2, 3)
    place = torch.tensor([0, 1]).npu()
    assert x.clone().index_add_(0, place, h).dtype == FULL
    assert h.clone().index_add_(0, place, x).dtype == HALF
    assert h.clone().index_put_((place,), x).dtype == HALF
    out = torch.empty(2, 3).npu().half()
    torch.exp(h, out=out)
    assert out.dtype == HALF


@pytest.mark.usefixtures("on")
def test_other_types_and_devices_are_left_alone() -> None:
    assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == FULL
    assert torch.mm(torch.ones(2, 2).npu().double(), torch.ones(2, 2).npu().double()).dtype == torch.float64
    assert torch.ones(2).half().exp().dtype == HALF
    assert torch.ones(2).npu().int().sum().dtype == torch.int64


@pytest.mark.usefixtures("on")
def test_banned_and_disabled() -> None:
    x, h = pair(3)
    with pytest.raises(NotImplementedError, match="binary_cross_entropy_with_logits"):
        nn.BCELoss()(torch.sigmoid(h), x.sigmoid())
    assert nn.BCELoss()(torch.sigmoid(x), x.sigmoid()).dtype == FULL
    with amp.disable_casts():
        assert h.exp().dtype == HALF
        assert torch.mm(torch.ones(2, 2).npu(), torch.ones(2, 2).npu()).dtype == FULL
    assert h.exp().dtype == FULL


@pytest.mark.usefixtures("on")
def test_weights_are_cast_once_per_iteration() -> None:
    layer = nn.Linear(4, 4).npu()
    optimizer = torch.optim.SGD(layer.parameters(), 0.5)
    _, optimizer = amp.initialize(layer, optimizer, verbosity=0)
    x = torch.rand(2, 4).npu()
    cache = _amp_state.handle.cache
    (layer(layer(x)) + layer(x)).sum()
    assert len(cache.kept) == 2  # weight and bias
    kept = cache.kept[id(layer.weight)][2]
    layer(x)
    assert cache.kept[id(layer.weight)][2] is kept
    loss = layer(layer(x)).mean()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    assert not cache.kept
    grad = layer.weight.grad.clone()
    with amp.disable_casts():
        layer.weight.grad = None
        layer(layer(x)).mean().backward()
    torch.testing.assert_close(grad, layer.weight.grad, rtol=1e-2, atol=1e-2)
    before = layer(x)
    optimizer.step()
    assert not torch.equal(before, layer(x))
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    assert not layer(x).any()  # a change in place is seen without the end of an iteration


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.usefixtures("on")
def test_recurrent_layers(cell: str) -> None:
    layer = getattr(nn, cell)(4, 5, num_layers=2, bidirectional=True).npu()
    one = getattr(nn, f"{cell}Cell")(4, 5).npu()
    for x in pair(6, 3, 4):
        out, _ = layer(x)
        assert out.dtype == HALF
        out.float().sum().backward()
        assert layer.weight_ih_l0.grad.dtype == FULL
        with amp.disable_casts():
            torch.testing.assert_close(out.float(), layer(x.float())[0], rtol=1e-2, atol=1e-2)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 5, 2]))
        assert layer(packed)[0].data.dtype == HALF
        state = one(x[0])
        assert (state[0] if cell == "LSTM" else state).dtype == HALF
    with pytest.raises((RuntimeError, ValueError), match=r"2-D or 3-D|2D or 3D|dimension"):
        layer(torch.rand(1, 1, 1, 4).npu())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.usefixtures("on")
def test_attention_computes_in_half(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).npu().train(training)
    x, h = pair(2, 5, 8)
    with torch.no_grad():
        with amp.disable_casts():
            wanted = layer(x)
        torch.testing.assert_close(layer(x).float(), wanted, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(layer(h).float(), wanted, rtol=2e-2, atol=2e-2)


def test_torch_is_its_own_again() -> None:
    names = [(module, name) for module, name, _ in lists.rows()]
    before = [(getattr(module, name), name in vars(module)) for module, name in names]
    amp.initialize(nn.Linear(2, 2).npu(), verbosity=0)
    assert getattr(*names[0]) is not before[0][0]
    amp.initialize(nn.Linear(2, 2).npu(), opt_level="O2", verbosity=0)
    after = [(getattr(module, name), name in vars(module)) for module, name in names]
    assert [b for _, b in before] == [b for _, b in after]
    assert all(a is b or a == b for (a, _), (b, _) in zip(before, after, strict=True))


REGISTRY = """
import sys, types, torch
from apex import amp
mine = types.ModuleType("mine")
mine.twice = lambda x: x * 2
mine.thrice = lambda x: x * 3
mine.both = lambda x, y: (x, y)
amp.register_half_function(mine, "twice")
amp.register_float_function(mine, "thrice")
amp.register_promote_function(mine, "both")
amp.register_float_function(torch.nn.functional, "linear")
try:
    amp.register_half_function(mine, "none")
except ValueError as error:
    assert "No function named none" in str(error)
@amp.half_function
def halves(x, rest): return x.dtype, rest["a"][0].dtype
@amp.float_function
def floats(x): return x.dtype
@amp.promote_function
def widest(x, y): return x.dtype, y.dtype
f, h = torch.ones(2, 2).npu(), torch.ones(2, 2).npu().half()
assert floats(h) == h.dtype and mine.twice(f).dtype == f.dtype  # nothing before initialize
amp.initialize(torch.nn.Linear(2, 2).npu(), verbosity=0, user_cast_preferred=eval(sys.argv[1]))
assert mine.twice(f).dtype == h.dtype and mine.thrice(h).dtype == f.dtype
assert [one.dtype for one in mine.both(f, h)] == [f.dtype] * 2 and [one.dtype for one in mine.both(h, h)] == [h.dtype] * 2
assert halves(f, {"a": [f]}) == (h.dtype, h.dtype) and floats(h) == f.dtype and widest(h, f) == (f.dtype, f.dtype)
linear = torch.nn.functional.linear(f * 1.0001, f)
assert linear.dtype == f.dtype
print(linear[0, 0].item())
mine.late = lambda x: x
amp.register_half_function(mine, "late")
assert mine.late(f).dtype == h.dtype
"""


@pytest.mark.parametrize(("preferred", "wanted"), [(True, 2.0002), (False, 2.0)])
def test_registered_functions(preferred: bool, wanted: float) -> None:
    """Without user_cast_preferred amp's own cast to half comes first and rounds what the user's cast makes float32 again."""
    result = subprocess.run(
        [sys.executable, "-c", REGISTRY, str(preferred)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == pytest.approx(wanted, abs=1e-6)


def test_loss_of_a_cnn_is_float32() -> None:
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 4)).npu()
    amp.initialize(model, verbosity=0)
    x, target = pictures(0)
    assert nn.CrossEntropyLoss()(model(x), target).dtype == FULL


@pytest.mark.usefixtures("on")
def test_without_gradients_weights_are_read_anew() -> None:
    layer = nn.Linear(4, 1).npu()
    x = torch.rand(2, 4).npu()
    layer(x)  # leaves its weights behind, as a forward pass does whose loss is not used
    for number in (0.0, 1.0):
        for one in layer.parameters():
            one.data.fill_(number)  # an average swapped in: no version tells of it
        for mode in (torch.no_grad(), torch.inference_mode()):
            with mode:
                torch.testing.assert_close(
                    layer(x).float(), number * (x.half().float().sum(1, keepdim=True) + 1), rtol=1e-3, atol=0
                )


@pytest.mark.usefixtures("on")
def test_without_gradients_nothing_is_kept() -> None:
    layer = nn.Linear(4, 1).npu()
    with torch.no_grad():
        layer(torch.rand(2, 4).npu())
    assert not _amp_state.handle.cache.kept


@pytest.mark.usefixtures("on")
def test_a_backward_pass_without_scale_loss_ends_the_iteration() -> None:
    layer = nn.Linear(4, 1).npu()
    x = torch.rand(2, 4).npu()
    layer(x).sum().backward()
    assert not _amp_state.handle.cache.kept
    for one in layer.parameters():
        one.data.zero_()
    assert not layer(x).any()
