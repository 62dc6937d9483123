"""A program in two processes that train together. Where there is no hccl yet, gloo carries npu tensors over the host."""

from __future__ import annotations

import socket
import subprocess
import sys

_HEAD = """
import sys
import torch, torch_npu
import torch.distributed as dist
rank, port = int(sys.argv[1]), sys.argv[2]
torch.npu.set_device(rank)
hccl = "hccl" in dist.Backend.backend_list
dist.init_process_group("hccl" if hccl else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
class Done:
    def wait(self): pass
def over_host(collective):
    def call(tensor, *args, async_op=False, **kwargs):
        carrier = tensor.cpu()
        collective(carrier, *args, **kwargs)
        tensor.copy_(carrier)
        return Done()
    return call
if not hccl:
    dist.all_reduce, dist.broadcast = over_host(dist.all_reduce), over_host(dist.broadcast)
"""
_TAIL = "\ndist.destroy_process_group()\n"


def ranks(program: str) -> list[str]:
    """What each of the two processes printed; `rank`, `torch` and `dist` are there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _HEAD + program + _TAIL, str(rank), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    done = [(process.communicate(timeout=120), process.returncode) for process in started]
    for (_, errors), code in done:
        assert code == 0, errors
    return [output.strip() for (output, _), _ in done]
