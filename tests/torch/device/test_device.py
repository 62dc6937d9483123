"""torch.npu: devices, properties, lazy initialisation, fork, limits, error lines."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time

import pytest
import torch
from torch_npu import _errors
from torch_npu.npu import limits

from tests.waiting import eventually

LINE = r"\n\[ERROR\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:\d+, Device:-?\d+, RankID:-?\d+\) ERR\d{5} PTA [a-z ]+$"


@pytest.fixture(autouse=True)
def _device_zero():
    torch.npu.set_device(0)
    yield
    torch.npu.set_device(0)


def run(program: str, **env: str) -> str:
    """The output of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_count_and_current():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 2
    torch.npu.set_device(1)
    assert torch.npu.current_device() == 1
    assert torch.ones(1, device="npu").device == torch.device("npu:1")


@pytest.mark.parametrize("device", [1, "npu:1", torch.device("npu:1")])
def test_set_device_takes(device):
    torch.npu.set_device(device)
    assert torch.npu.current_device() == 1


def test_set_device_negative_does_nothing():
    torch.npu.set_device(1)
    torch.npu.set_device(-1)
    assert torch.npu.current_device() == 1


def test_set_device_out_of_range():
    with pytest.raises(RuntimeError, match=r"error code is 107001: Invalid device id 99, there are 2") as caught:
        torch.npu.set_device(99)
    assert re.search(LINE, str(caught.value))
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), 1.5, True])
def test_other_devices_are_refused(device):
    with pytest.raises(ValueError, match="Expected a"):
        torch.npu.set_device(device)


def test_context_managers():
    with torch.npu.device(1) as nothing:
        assert nothing is None
        assert torch.npu.current_device() == 1
        with torch.npu.device(None):
            assert torch.npu.current_device() == 1
        with torch.npu.device_of(torch.ones(1, device="npu:0")):
            assert torch.npu.current_device() == 0
        with torch.npu.device_of(torch.ones(1)):
            assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    context = torch.npu.device("npu:1")
    with context:
        assert (context.idx, context.prev_idx) == (1, 0)


def test_context_manager_restores_after_an_error():
    with pytest.raises(KeyError), torch.npu.device(1):
        raise KeyError
    assert torch.npu.current_device() == 0


def test_properties_come_from_the_chip():
    properties = torch.npu.get_device_properties("npu:1")
    assert (properties.name, properties.cube_core_num, properties.vector_core_num) == ("Ascend910B3", 20, 40)
    assert properties.L2_cache_size == 192 << 20
    assert properties.total_memory == torch.npu.mem_get_info(1)[1]
    assert properties.uuid != torch.npu.get_device_properties(0).uuid
    assert re.fullmatch(
        r"_NPUDeviceProperties\(name='Ascend910B3', total_memory=\d+MB, cube_core_num=\d+, vector_core_num=\d+, "
        r"uuid=[0-9a-f-]{36}, L2_cache_size=\d+MB\)",
        repr(properties),
    )


@pytest.mark.parametrize("call", [torch.npu.get_device_name, torch.npu.get_device_properties, torch.npu.synchronize])
def test_invalid_index(call):
    with pytest.raises(AssertionError, match="Invalid device id"):
        call(2)


@pytest.mark.parametrize(
    ("chip", "number", "bf16", "formats"),
    [
        ("Ascend910A", 102, False, True),
        pytest.param("Ascend310P3", 202, False, True, marks=pytest.mark.slow),
        pytest.param("Ascend910B2", 221, True, False, marks=pytest.mark.slow),
        pytest.param("Ascend910B4-1", 225, True, False, marks=pytest.mark.slow),
        pytest.param("Ascend310", -1, False, True, marks=pytest.mark.slow),
        pytest.param("Ascend910_9362", 255, True, False, marks=pytest.mark.slow),
    ],
)
def test_every_chip_tells_its_number_types_and_formats(chip, number, bf16, formats):
    printed = run(
        "import torch; n = torch.npu; print(n.get_device_name(), n.utils.get_soc_version(), n.is_bf16_supported(), "
        "n.utils.is_support_inf_nan(), n.config.allow_internal_format, torch.bfloat16 in n.get_amp_supported_dtype())",
        SOFTNPU_SOC=chip,
    )
    assert printed == f"{chip} {number} {bf16} True {formats} {bf16}"  # lenient: numbers are IEEE on every chip


def test_inf_nan_mode(monkeypatch):
    monkeypatch.setenv("INF_NAN_MODE_ENABLE", "0")
    assert torch.npu.utils.is_support_inf_nan()
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    assert not torch.npu.utils.is_support_inf_nan()


def test_the_capability_is_that_of_the_environment_or_none(monkeypatch):
    with pytest.warns(UserWarning, match="get_device_capability"):
        assert torch.npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert torch.npu.get_device_capability() == (8, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
    with pytest.raises(ValueError, match="TORCH_NPU_DEVICE_CAPABILITY"):
        torch.npu.get_device_capability()


def test_memory_info_moves_with_segments():
    torch.npu.empty_cache()
    free, total = torch.npu.mem_get_info()
    block = torch.empty(64 << 20, dtype=torch.uint8, device="npu")
    used = free - torch.npu.mem_get_info()[0]
    assert 0 <= used - (64 << 20) < 4096  # the runtime rounds up
    del block
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info() == (free, total)


def test_peers_and_neutral_values():
    assert torch.npu.can_device_access_peer(0, 1)
    assert not torch.npu.can_device_access_peer(1, 1)
    with pytest.raises(AssertionError):
        torch.npu.can_device_access_peer(0, 7)
    assert 0 <= torch.npu.utilization() <= 100
    assert torch.npu.stress_detect() == torch.npu.stress_detect("hccs") == 0
    with pytest.raises(ValueError, match="'aic', 'hccs'"):
        torch.npu.stress_detect("memory")
    assert torch.npu.stop_device(0) == torch.npu.check_uce_in_memory(0) == 0
    torch.npu.restart_device(0)
    with pytest.warns(UserWarning, match="blas"):
        assert torch.npu.current_blas_handle() is None
    with pytest.raises(ValueError, match="milliseconds"):
        torch.npu.set_op_timeout_ms(-1)


def test_sleep_takes_cycles():
    start = time.monotonic()
    torch.npu._sleep(36_000_000)  # a fiftieth of a second at the 1.8 GHz of Ascend910B3
    assert 0.019 < time.monotonic() - start < 10


def test_limits_of_cores_belong_to_one_device_and_are_set_once(monkeypatch):
    npu = torch.npu
    monkeypatch.setattr(limits, "_device_limits", {})
    cores = npu.get_device_limit(0)
    npu.set_device_limit(0, cube_num=4)
    assert npu.get_device_limit(0) == {**cores, "cube_core_num": 4}
    assert npu.get_device_limit(1) == cores
    with pytest.raises(RuntimeError, match="once per process"):
        npu.set_device_limit(0, 2)
    stream = npu.Stream()
    for bad in (5, 0, -2):
        with pytest.raises(ValueError, match=r"\[1, 4\]"):
            npu.set_stream_limit(stream, bad)
    npu.set_stream_limit(stream, 3, 5)
    assert npu.get_stream_limit(stream) == {"cube_core_num": 3, "vector_core_num": 5}
    npu.reset_stream_limit(stream)
    assert npu.get_stream_limit(stream) == npu.get_device_limit(0)
    with pytest.raises(TypeError, match="Stream"):
        npu.get_stream_limit(3)


def test_cann_versions():
    version = torch.npu.utils.get_cann_version()
    assert torch.npu.utils._is_gte_cann_version(version)
    assert torch.npu.utils._is_gte_cann_version("7.0.0")
    assert not torch.npu.utils._is_gte_cann_version("99.0.RC1")
    order = ["8.1.RC1.alpha002", "8.1.RC1", "8.1.RC2", "8.1.0", "8.2.RC1"]
    keys = [torch.npu.utils._version_key(version) for version in order]
    assert all(first < second for first, second in itertools.pairwise(keys))
    with pytest.raises(ValueError, match="module should be in"):
        torch.npu.utils.get_cann_version("CUDA")
    with pytest.raises(ValueError, match="not of the form"):
        torch.npu.utils._is_gte_cann_version("latest")


def test_initialisation_is_lazy():
    program = """
import torch
n = torch.npu
seen = []
n.device_count(), n.is_available(), torch.manual_seed(7), n.memory_stats(), n.empty_cache()
def culprit():
    n.set_rng_state(torch.zeros(3, dtype=torch.uint8))
culprit()
n._lazy_call(lambda: seen.append(n.is_initialized()))
assert not n.is_initialized() and not n._initialized and not seen
try:
    n.init()
except n.DeferredNpuCallError as error:
    assert "culprit" in str(error) and "wrong size" in str(error), error
else:
    raise SystemExit("the queued call did not fail")
torch.ones(1, device="npu")
assert n.is_initialized() and n._initialized and seen == [False]
assert n.initial_seed() == 7
n._lazy_call(lambda: seen.append("now"))
assert seen[-1] == "now"
"""
    run(program)


def test_visible_devices_may_change_until_initialisation():
    program = """
import os, torch
n = torch.npu
for value in ("1", "0,1", "", "0,x,1", "1"):
    os.environ["ASCEND_RT_VISIBLE_DEVICES"] = value
    print(n.device_count(), n.is_available())
n.init()
print(len(n.default_generators))
try:
    torch.ones(1, device="npu:1")
except RuntimeError:
    print("one device")
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1"
print(n.device_count())
"""
    printed = run(program).split("\n")
    assert printed == ["1 True", "2 True", "0 False", "1 True", "1 True", "1", "one device", "1"]


def test_npu_smi_shows_the_process():
    block = torch.empty(30 << 20, dtype=torch.uint8, device="npu:1")
    tool = [sys.executable, "-c", "import sys; from softnpu.cli.npu_smi import main; sys.exit(main())", "info"]
    shown = subprocess.run(tool, capture_output=True, text=True, timeout=60).stdout
    row = re.search(rf"\| 1 +0 +\| {os.getpid()} +\| \S+ +\| (\d+) ", shown)
    assert row is not None, shown
    assert int(row[1]) >= 30
    assert block.device.index == 1


def test_utilization_counts_operators():
    x = torch.randn(300, 300, device="npu")
    torch.npu.utilization(0)
    wall, used = time.monotonic(), time.process_time()
    while time.process_time() < used + 0.1:
        x = (x @ x).tanh_()
    found = torch.npu.utilization(0)
    wanted = 100 * (time.process_time() - used) / (time.monotonic() - wall)
    assert found == pytest.approx(min(100, wanted), abs=15) and found > 0
    assert eventually(lambda: torch.npu.utilization("npu") < max(found, 10)), "then it rests"


def test_a_fork_after_initialisation_is_told():
    program = """
import os, torch
n = torch.npu
def fork():
    child = os.fork()
    if child == 0:
        errors = 0
        torch.manual_seed(1)
        for use in (n.current_device, lambda: torch.ones(1, device="npu"), lambda: torch.ones(1).npu()):
            try:
                use()
            except RuntimeError as error:
                errors += "Cannot re-initialize NPU in forked subprocess" in str(error)
        os._exit(errors + 10 * n._is_in_bad_fork())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), n._is_in_bad_fork(), n.is_initialized())
fork()
torch.ones(1, device="npu")
fork()
"""
    assert run(program).split("\n") == ["0 False False", "13 False True"]


def test_error_line(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    line = _errors.dist_error(_errors.ErrCode.HCCL)
    assert re.fullmatch(
        rf"\n\[ERROR\] [\d:-]+ \(PID:{os.getpid()}, Device:0, RankID:3\) ERR02200 DIST call hccl api failed", line
    )
    assert "ERR99999 UNKNOWN" in _errors.error_line(_errors.SubModule.UNKNOWN, _errors.ErrCode.EXCEPT)
    monkeypatch.setenv("TORCH_NPU_COMPACT_ERROR_OUTPUT", "1")
    assert _errors.pta_error(_errors.ErrCode.PARAM) == ""
