"""Which operators are exported as a node of their own, which as plain operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.onnx
from torch.jit import TracerWarning  # type: ignore[attr-defined]
from torch.onnx import register_custom_op_symbolic  # type: ignore[attr-defined]

import torch_npu
from torch_npu.onnx._symbolic import symbolic
from torch_npu.operators import body_of
from torch_npu.operators._generated.schemas import SCHEMAS

_OPSET = 9  # the first that torch exports; ATC reads 11
_IRREGULAR = {"fast_gelu": "NPUFastGelu", "npu_geglu": "NPUGeGlu", "npu_ptiou": "NPUIou"}
_WORDS = [
    "fast_gelu", "npu_add_rms_norm", "npu_anchor_response_flags", "npu_anti_quant", "npu_batch_nms",
    "npu_bounding_box_decode", "npu_bounding_box_encode", "npu_ciou", "npu_clear_float_status", "npu_deep_norm",
    "npu_deformable_conv2d", "npu_diou", "npu_dropout_with_add_softmax", "npu_dtype_cast", "npu_dynamic_quant",
    "npu_fast_gelu", "npu_ffn", "npu_format_cast", "npu_fused_attention_score", "npu_geglu", "npu_gelu",
    "npu_get_float_status", "npu_giou", "npu_grid_assign_positive", "npu_group_norm_silu", "npu_gru",
    "npu_incre_flash_attention", "npu_indexing", "npu_iou", "npu_lstm", "npu_lstm_cell", "npu_masked_fill_range",
    "npu_mm_all_reduce_base", "npu_moe_compute_expert_tokens", "npu_moe_finalize_routing",
    "npu_moe_gating_top_k_softmax", "npu_moe_init_routing", "npu_multi_head_attention", "npu_nms_rotated",
    "npu_nms_v4", "npu_nms_with_mask", "npu_normalize_batch", "npu_one_hot", "npu_prompt_flash_attention",
    "npu_ps_roi_pooling", "npu_ptiou", "npu_quantize", "npu_random_choice_with_mask", "npu_rms_norm", "npu_roi_align",
    "npu_rotary_mul", "npu_rotated_box_decode", "npu_rotated_box_encode", "npu_rotated_iou", "npu_rotated_overlaps",
    "npu_scatter", "npu_scatter_nd_update", "npu_sign_bits_pack", "npu_sign_bits_unpack", "npu_slice",
    "npu_softmax_cross_entropy_with_logits", "npu_weight_quant_batchmatmul", "npu_yolo_boxes_encode",
]  # fmt: skip


def node_name(operator: str) -> str:
    """npu_roi_align → NPURoiAlign."""
    if operator in _IRREGULAR:
        return _IRREGULAR[operator]
    return "NPU" + "".join(part.capitalize() for part in operator.removeprefix("npu_").split("_"))


NODES = {operator: node_name(operator) for operator in _WORDS}
PLAIN = [
    "npu_add_layer_norm", "npu_bmmV2", "npu_broadcast", "npu_confusion_transpose", "npu_conv2d", "npu_conv3d",
    "npu_conv_transpose2d", "npu_convolution", "npu_convolution_transpose", "npu_fusion_attention", "npu_linear", "npu_max",
    "npu_min", "npu_mish", "npu_pad", "npu_reshape", "npu_scaled_masked_softmax", "npu_silu", "npu_sort_v2", "npu_swiglu",
    "npu_transpose",
]  # fmt: skip


def _places() -> dict[str, tuple[str, str]]:
    """The module of a body and its full name by the operator's name; of overloads the functional one."""
    places: dict[str, tuple[str, str]] = {}
    for module, schemas in SCHEMAS.items():
        for schema in schemas:
            name = schema.partition("(")[0]
            base, _, overload = name.partition(".")
            if overload not in ("out", "names_dim"):
                places.setdefault(base, (module, name))
    return places


def _decomposed(name: str, body_place: tuple[str, str]) -> Callable[..., Any]:
    """A function of torch_npu that is its own composition while a model is exported, and the operator otherwise."""
    operator = getattr(torch.ops.npu, name)

    @wraps(operator)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.onnx.is_in_onnx_export():
            return operator(*args, **kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)  # a body that checks sizes decides nothing by them
            return body_of(*body_place)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def install() -> None:
    """Register the nodes; let the plain ones be seen through. What a program registered itself before stays."""
    from torch.onnx._internal.torchscript_exporter import registration

    for name, node in NODES.items():
        group = registration.registry.get_function_group(f"npu::{name}")
        if group is None:
            register_custom_op_symbolic(f"npu::{name}", symbolic(name, node), _OPSET)
    places = _places()
    for name in PLAIN:
        setattr(torch_npu, name, _decomposed(name, places[name]))
