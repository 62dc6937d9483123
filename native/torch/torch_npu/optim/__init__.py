"""Optimizers whose parameters, gradients and states are one buffer per dtype: one kernel per operation instead of one per parameter."""

from torch_npu.optim.adadelta import NpuFusedAdadelta
from torch_npu.optim.adam import NpuFusedAdam, NpuFusedAdamW
from torch_npu.optim.adamp import NpuFusedAdamP
from torch_npu.optim.base import NpuFusedOptimizerBase
from torch_npu.optim.bert_adam import NpuFusedBertAdam
from torch_npu.optim.lamb import NpuFusedLamb
from torch_npu.optim.rmsprop import NpuFusedRMSprop, NpuFusedRMSpropTF
from torch_npu.optim.sgd import NpuFusedSGD

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
