"""pyACL beside torch: the same devices, with or without `acl.init`."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import threading
import acl, numpy as np, torch

def read(tensor):
    host = bytearray(tensor.nbytes)
    address = np.frombuffer(host, np.uint8).ctypes.data
    assert acl.rt.memcpy(address, len(host), tensor.data_ptr(), len(host), 2) == 0
    return np.frombuffer(host, np.float32).tolist()
"""
PROGRAMS = {
    "torch alone": """
x = torch.arange(4.0).npu()
assert read(x) == [0, 1, 2, 3]
def other():
    torch.npu.set_device(1)
    assert read(torch.ones(2, device="npu")) == [1, 1]
    assert acl.rt.get_device() == (1, 0)
thread = threading.Thread(target=other)
thread.start()
thread.join()
""",
    "acl.init afterwards": """
x = torch.arange(4.0).npu()
assert read(x) == [0, 1, 2, 3]
assert acl.init() == 0 and acl.init() == 100002
assert acl.rt.set_device(0) == 0 and read(x) == [0, 1, 2, 3]
assert acl.rt.reset_device(0) == 0 and acl.finalize() == 0
assert acl.rt.malloc(8, 0)[1] == 100001
assert x.sum().item() == 6
""",
    "acl.init before": """
assert acl.init() == 0 and acl.rt.set_device(0) == 0
x = torch.arange(4.0).npu()
assert read(x) == [0, 1, 2, 3]
pointer, ret = acl.rt.malloc(16, 0)
assert ret == 0 and acl.rt.memcpy(pointer, 16, x.data_ptr(), 16, 3) == 0
assert acl.rt.free(pointer) == 0 and acl.finalize() == 0
""",
    "without torch": """
assert acl.rt.malloc(8, 0)[1] == 100001
assert acl.init() == 0
assert acl.rt.malloc(8, 0)[1] == 107002
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_pyacl_and_torch_use_the_same_devices(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", BEGIN + PROGRAMS[name]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
