"""`torch_npu.contrib`: modules, each against what it stands for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_npu import contrib
from torch_npu.contrib import module

from tests.torch.operators.test_boxes_coders import ROIS, bilinear, plain_ps, plain_roi_align


def guide_shuffle(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The shuffle of torchvision that the porting guide starts from."""
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batch, -1, height, width)


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("split", [True, False])
def test_channel_shuffle(groups: int, split: bool) -> None:
    torch.manual_seed(0)
    x1, x2 = (torch.randn(2, 8, 3, 3, requires_grad=True) for _ in range(2))
    layer = module.ChannelShuffle(16, groups, split).npu()
    moved = [one.detach().npu().requires_grad_() for one in (x1, x2)]
    found = layer(*moved)
    found = torch.cat(found, 1) if split else found
    wanted = guide_shuffle(torch.cat((x1, x2), 1), groups)
    assert torch.equal(found.cpu(), wanted)
    grad = torch.randn_like(wanted)
    wanted.backward(grad)
    found.backward(grad.npu())
    assert torch.equal(moved[0].grad.cpu(), x1.grad) and torch.equal(moved[1].grad.cpu(), x2.grad)
    names = {"fp_index1", "fp_index2"} if split else {"fp_index"}
    assert set(layer.state_dict()) == names | {"bp_index1", "bp_index2"}


def test_channel_shuffle_checks_channels() -> None:
    with pytest.raises(ValueError, match="15 channels cannot be split"):
        module.ChannelShuffle(15, 3)


def test_a_prefetcher_brings_every_batch_to_the_device() -> None:
    data = [(torch.full((2, 3), float(i)), torch.tensor([i])) for i in range(4)]
    fetch = module.Prefetcher(torch.utils.data.DataLoader(data, batch_size=2), stream=torch.npu.Stream())
    seen = []
    image, target = fetch.next()
    while image is not None:
        assert image.is_npu and target.is_npu and image.shape == (2, 2, 3)
        seen += target.flatten().tolist()
        image, target = fetch.next()
    assert seen == [0, 1, 2, 3] and fetch.next() == (None, None)
    nested = module.Prefetcher([({"a": torch.ones(1)}, [torch.ones(1), "text"])])
    first, second = nested.next()
    assert first["a"].is_npu and second[0].is_npu and second[1] == "text"


def test_label_smoothing() -> None:
    pred, target = torch.randn(6, 10), torch.randint(0, 10, (6,))
    plain = module.LabelSmoothingCrossEntropy(10)(pred.npu(), target.int().npu())
    torch.testing.assert_close(plain.cpu(), F.cross_entropy(pred, target))
    wanted = -(torch.full((6, 10), 0.1 / 9).scatter(1, target[:, None], 0.9) * pred.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(module.LabelSmoothingCrossEntropy(10, 0.1)(pred, target), wanted)
    with pytest.raises(ValueError, match="10 columns for 7 classes"):
        module.LabelSmoothingCrossEntropy(7)(pred, target)


@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(aligned: bool) -> None:
    x = torch.randn(2, 3, 9, 12, dtype=torch.float64)
    layer = module.ROIAlign((2, 3), 0.2, 2, aligned)
    wanted = plain_roi_align(x, ROIS, 0.2, (2, 3), 2, 3 if aligned else 0)
    torch.testing.assert_close(layer(x.npu(), ROIS.npu()).cpu(), wanted)
    assert module.ROIAlign(7, 0.2, 2).output_size == (7, 7) and "sampling_ratio=2" in repr(layer)


def test_ps_roi_pool() -> None:
    x = torch.randn(1, 18, 6, 6, dtype=torch.float64)
    rois = torch.tensor([[[0.0], [3], [4], [60], [70]]], dtype=torch.float64)
    layer = module.PSROIPool(3, 3, 1 / 16, 3, 2)
    torch.testing.assert_close(layer(x.npu(), rois.npu()).cpu(), plain_ps(x, rois, 1 / 16, 3, 2))
    with pytest.raises(ValueError, match="must be group_size"):
        module.PSROIPool(7, 6)


def plain_deform(x: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, layer: Any) -> torch.Tensor:
    """Deformable convolution, place by place; a sample outside the picture counts as a picture of zeros around it."""
    weight, bias = layer.weight.detach(), layer.bias.detach()
    (high, wide), (up, left), (tall, broad) = layer.stride, layer.padding, layer.dilation
    batch, channels = x.shape[:2]
    rows, columns = offset.shape[2:]
    border = F.pad(x, (1, 1, 1, 1)).numpy()
    result = torch.zeros(batch, weight.shape[0], rows, columns, dtype=x.dtype)
    per = channels // layer.deformable_groups
    for n, i, j, a, b, c in np.ndindex(batch, rows, columns, *layer.kernel_size, channels):
        place = (c // per) * 9 + a * 3 + b
        y = i * high - up + a * tall + offset[n, 2 * place, i, j].item()
        z = j * wide - left + b * broad + offset[n, 2 * place + 1, i, j].item()
        if not (-1 < y < x.shape[2] and -1 < z < x.shape[3]):
            continue
        value = bilinear(border[n, c], y + 1, z + 1) * mask[n, place, i, j].item()
        outputs = weight.shape[0] // layer.groups
        group = c // (channels // layer.groups)
        some = slice(group * outputs, (group + 1) * outputs)
        result[n, some, i, j] += weight[some, c % (channels // layer.groups), a, b] * value
    return result + bias.reshape(1, -1, 1, 1)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)])
def test_deformable_convolution(stride: int, padding: int, dilation: int, groups: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 6, dtype=torch.float64)
    layer = module.DCNv2(4, 6, 3, stride, padding, dilation, groups, 2, pack=False).double()
    torch.nn.init.normal_(layer.bias)
    plain = F.conv2d(x, layer.weight, layer.bias, stride, padding, dilation, groups)
    offset = torch.randn(2, 36, *plain.shape[2:], dtype=torch.float64) * 0.7
    mask = torch.rand(2, 18, *plain.shape[2:], dtype=torch.float64)
    result = layer.npu()(x.npu(), offset.npu(), mask.npu())
    torch.testing.assert_close(result.detach().cpu(), plain_deform(x, offset, mask, layer.cpu()))
    still = layer(x, offset * 0, torch.ones_like(mask))
    torch.testing.assert_close(still, plain)
    with pytest.raises(ValueError, match="needs offset and mask"):
        layer(x)


def test_packed_deformable_convolution_starts_as_half_a_convolution_and_learns() -> None:
    layer = module.ModulatedDeformConv(4, 6, 3, padding=1).npu()
    x = torch.randn(1, 4, 5, 5).npu()
    wanted = F.conv2d(x, layer.weight * 0.5, layer.bias, padding=1)
    torch.testing.assert_close(layer(x), wanted)
    layer(x).square().sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in layer.parameters())


@pytest.mark.parametrize(("name", "plain"), [("Mish", F.mish), ("SiLU", F.silu), ("Swish", F.silu)])
def test_activations_are_those_of_torch(name: str, plain: Any) -> None:
    x = torch.randn(10)
    torch.testing.assert_close(getattr(module, name)()(x.npu()).cpu(), plain(x))


def test_bilstm_is_the_lstm_of_torch_both_ways() -> None:
    layer, plain = module.BiLSTM(4, 3), nn.LSTM(4, 3, bidirectional=True)
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        getattr(plain, name).data = getattr(layer.fw, name).data
        getattr(plain, f"{name}_reverse").data = getattr(layer.bw, name).data
    x = torch.randn(5, 2, 4)
    torch.testing.assert_close(layer.npu()(x.npu()).cpu(), plain.cpu()(x)[0], atol=1e-5, rtol=1e-4)


def test_focus_is_a_convolution_of_interleaved_pixels() -> None:
    layer = module.Focus(3, 8, 3).eval()
    x = torch.randn(1, 3, 6, 8)
    space = F.pixel_unshuffle(x, 2).reshape(1, 3, 2, 2, 3, 4).permute(0, 3, 2, 1, 4, 5).reshape(1, 12, 3, 4)
    wanted = F.silu(layer.conv.bn(F.conv2d(space, layer.conv.conv.weight, padding=1)))
    torch.testing.assert_close(layer(x), wanted)
    assert isinstance(module.Focus(3, 8, act=False).conv.act, nn.Identity)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_fast_batch_norms(size: int) -> None:
    layer = getattr(module, f"FastBatchNorm{size}d")(4).npu()
    x = torch.randn(3, 4, *[2] * size)
    torch.testing.assert_close(layer(x.npu()).cpu(), getattr(nn, f"BatchNorm{size}d")(4)(x), atol=1e-5, rtol=1e-4)
    assert isinstance(module.FastSyncBatchNorm(4), nn.SyncBatchNorm)


@pytest.mark.parametrize(
    "layer",
    [
        module.DropoutV2(0.25),
        module.DropoutWithByteMask(0.25),
        module.NpuFairseqDropout(0.25, "name"),
        module.NpuCachedDropout(0.25),
        module.NpuPreGenDropout(0.25),
    ],
)
def test_dropouts_drop_their_part_and_scale_the_rest(layer: nn.Module) -> None:
    x = torch.ones(4000).npu()
    result = layer.train()(x)
    assert 0.7 < (result != 0).float().mean() < 0.8 and result.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.equal(layer.eval()(x), x)


def test_fairseq_dropout_stays_on_for_generation() -> None:
    layer = module.NpuFairseqDropout(0.5, "Encoder").eval()
    layer.make_generation_fast_("encoder", retain_dropout=True, retain_dropout_modules=["Decoder"])
    assert not layer.apply_during_inference
    layer.make_generation_fast_("encoder", retain_dropout=True, retain_dropout_modules=["Encoder"], beamable=True)
    assert (layer(torch.ones(100)) == 0).any()
    with module.NpuFairseqDropout.enable_dropout_ensemble(layer) as model:
        assert model is layer


def test_drop_path() -> None:
    x = torch.ones(2000, 2, 2).npu()
    result = module.NpuDropPath(0.25).train()(x)
    rows = result.reshape(2000, 4)
    assert torch.equal(rows.amin(1), rows.amax(1)) and rows.unique().tolist() == pytest.approx([0, 4 / 3])
    assert 0.7 < (rows[:, 0] != 0).float().mean() < 0.8
    assert module.NpuDropPath(0.25).eval()(x) is x and module.NpuDropPath()(x) is x


def fairseq_reference(layer: Any, query: Any, key: Any, value: Any, **extra: Any) -> tuple[Any, Any]:
    return F.multi_head_attention_forward(
        query, key, value, layer.embed_dim, layer.num_heads, None,
        torch.cat((layer.q_proj.bias, layer.k_proj.bias, layer.v_proj.bias)), layer.bias_k, layer.bias_v,
        layer.add_zero_attn, 0.0, layer.out_proj.weight, layer.out_proj.bias, use_separate_proj_weight=True,
        q_proj_weight=layer.q_proj.weight, k_proj_weight=layer.k_proj.weight, v_proj_weight=layer.v_proj.weight, **extra,
    )  # fmt: skip


@pytest.mark.parametrize("extra", [False, True])
def test_multihead_attention(extra: bool) -> None:
    torch.manual_seed(0)
    layer = module.MultiheadAttention(16, 4, kdim=12, vdim=10, add_bias_kv=extra, add_zero_attn=extra)
    nn.init.normal_(layer.q_proj.bias)
    query, key, value = torch.randn(3, 2, 16), torch.randn(5, 2, 12), torch.randn(5, 2, 10)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    mask = torch.randn(3, 5)
    hidden = torch.zeros(2, 5).masked_fill(padding, -math.inf)
    wanted = fairseq_reference(layer, query, key, value, key_padding_mask=hidden, attn_mask=mask)
    result = layer(query, key, value, key_padding_mask=padding, attn_mask=mask)
    torch.testing.assert_close(result[0], wanted[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(result[1], wanted[1], atol=1e-5, rtol=1e-4)
    on = layer.npu()(query.npu(), key.npu(), value.npu(), need_weights=False)
    layer.cpu()
    torch.testing.assert_close(on[0].cpu(), fairseq_reference(layer, query, key, value)[0], atol=1e-5, rtol=1e-4)
    assert on[1] is None
    assert layer(query, key, value, need_head_weights=True)[1].shape == (4, 2, 3, 7 if extra else 5)


def test_multihead_attention_refuses() -> None:
    layer = module.MultiheadAttention(8, 2, self_attention=True)
    x = torch.randn(3, 1, 8)
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    torch.testing.assert_close(
        layer(x, None, None, attn_mask=causal)[0],
        layer(x, x, x, attn_mask=torch.zeros(3, 3).masked_fill(causal, -math.inf))[0],
    )
    with pytest.raises(NotImplementedError, match="incremental_state"):
        layer(x, x, x, incremental_state={})
    with pytest.raises(NotImplementedError, match=r"q_noise 0\.1"):
        module.MultiheadAttention(8, 2, q_noise=0.1)
    with pytest.raises(ValueError, match="divisible"):
        module.MultiheadAttention(9, 2)


def test_color_jitter() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(40, 180, (6, 5, 3), dtype=np.uint8)
    assert np.array_equal(module.FusedColorJitter()(image), image)
    grey = image @ np.array([0.299, 0.587, 0.114])
    layer = module.FusedColorJitter(brightness=(1.2, 1.2), contrast=(0.8, 0.8), saturation=(0.5, 0.5))
    step = image * 1.2 * 0.8 + 0.2 * grey.mean() * 1.2
    wanted = 0.5 * step + 0.5 * (step @ np.array([0.299, 0.587, 0.114]))[..., None]
    assert np.abs(layer(image).astype(int) - wanted.round().clip(0, 255)).max() <= 1
    turned = module.FusedColorJitter(hue=(0.3, 0.3))(np.full((1, 1, 3), 90, np.uint8))
    assert np.abs(turned.astype(int) - 90).max() <= 1  # grey has no hue
    red = module.FusedColorJitter.matrix(1, 1, 1, 1 / 3, 0) @ np.array([150.0, 0, 0, 1])
    assert red @ np.array([0.299, 0.587, 0.114]) == pytest.approx(150 * 0.299, rel=1e-2) and red.argmax() != 0
    for _ in range(20):
        assert module.FusedColorJitter(0.4, 0.4, 0.4, 0.1)(image).dtype == np.uint8
    with pytest.raises(ValueError, match="hue"):
        module.FusedColorJitter(hue=0.7)
    with pytest.raises(TypeError, match="RGB image"):
        module.FusedColorJitter()(image[..., 0])


def test_quantised_layers_have_the_parameters_of_their_operators() -> None:
    linear = contrib.LinearA8W8Quant(8, 4, offset=True, pertoken_scale=True, output_dtype=torch.float16)
    shapes = {name: (tuple(one.shape), one.dtype) for name, one in linear.named_parameters()}
    assert shapes["weight"] == ((4, 8), torch.int8) and shapes["bias"] == ((4,), torch.int32)
    assert shapes["scale"] == shapes["offset"] == ((4,), torch.float32)
    weight = contrib.LinearWeightQuant(64, 4, antiquant_offset=True, antiquant_group_size=32)
    assert weight.antiquant_scale.shape == weight.antiquant_offset.shape == (2, 4) and weight.quant_scale is None
    conv = contrib.QuantConv2d(4, 6, 3, torch.float16, groups=2, bias=False)
    assert conv.weight.shape == (6, 2, 3, 3) and conv.bias is None


def test_quantised_layers_compute() -> None:
    pytest.importorskip("torch_npu.operators.quantisation.values")
    linear = contrib.LinearQuant(8, 4, output_dtype=torch.float16)
    x = torch.randint(-8, 8, (3, 8), dtype=torch.int8)
    linear.weight.data = torch.randint(-8, 8, (4, 8), dtype=torch.int8)
    linear.scale.data, linear.bias.data = torch.rand(4), torch.randint(-9, 9, (4,), dtype=torch.int32)
    wanted = (x.int() @ linear.weight.int().t() + linear.bias) * linear.scale
    torch.testing.assert_close(linear.npu()(x.npu()).cpu().float(), wanted.cpu(), atol=0.05, rtol=1e-2)
    weight = contrib.LinearWeightQuant(8, 4, dtype=torch.float32)
    weight.weight.data, weight.antiquant_scale.data = linear.weight.data.cpu(), torch.rand(4)
    y = torch.randn(3, 8)
    wanted = y @ (weight.weight.float() * weight.antiquant_scale[:, None]).t()
    torch.testing.assert_close(weight(y), wanted, atol=1e-3, rtol=1e-3)
