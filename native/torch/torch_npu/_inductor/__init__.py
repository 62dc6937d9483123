"""`torch.compile` on npu. The backends here are entry points of the distribution."""

from torch_npu._inductor.registration import npu, npugraph_ex, npugraphs

__all__ = ["npu", "npugraph_ex", "npugraphs"]
