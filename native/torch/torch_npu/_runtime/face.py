"""torch as it is once torch_npu is imported, for the rooms below `torch_npu.npu`, which must not import that: torch's own types do not
know `torch.npu`."""

from __future__ import annotations

from typing import Any

import torch

torch_with_npu: Any = torch
