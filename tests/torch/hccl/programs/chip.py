"""With SOFTNPU_TORCH=chip only the data types of the chip are reduced."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checks import check, main, refused


@check
def float64_and_uint8_are_not_reduced() -> None:
    for dtype, name in ((torch.float64, "Double"), (torch.uint8, "Byte")):
        x = torch.ones(2, dtype=dtype).npu()
        refused(f"HCCL allreduce: Unsupported data type {name}", lambda x=x: dist.all_reduce(x), TypeError)
    x = torch.ones(2, dtype=torch.int16).npu()
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]


if __name__ == "__main__":
    main()
