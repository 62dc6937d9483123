"""acl.init, acl.finalize, the configuration file, versions, half floats."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from tests.support import in_thread, message, ok

pytestmark = pytest.mark.usefixtures("fresh")

INVALID_PARAM, UNINITIALIZE, REPEAT_INIT, INVALID_FILE, PARSE_FILE = 100000, 100001, 100002, 100003, 100006
BAD_DUMP, BAD_PROFILER, REPEAT_FINALIZE, BAD_QUEUE, FAILURE = 100009, 100010, 100037, 148048, 500001


@pytest.fixture
def config(tmp_path: Path) -> Callable[[Any], str]:
    """Writes a configuration file: text and bytes as they are, anything else as JSON."""
    numbers = iter(range(1000))

    def write(content: Any) -> str:
        path = tmp_path / f"acl{next(numbers)}.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return write


# ---- counting ----------------------------------------------------------------------------------------------------------


def test_init_and_finalize() -> None:
    assert acl.init() == 0
    assert acl.finalize() == 0


def test_second_init_is_reported_but_harmless() -> None:
    ok(acl.init())
    assert acl.init() == REPEAT_INIT
    ok(acl.rt.set_device(0))
    ok(acl.rt.create_stream())


def test_finalize_clears_the_whole_count() -> None:
    ok(acl.init())
    assert acl.init() == REPEAT_INIT
    assert acl.finalize() == 0
    assert acl.finalize() == REPEAT_FINALIZE
    assert "acl.finalize" in message()


def test_finalize_without_init_is_refused() -> None:
    assert acl.finalize() == REPEAT_FINALIZE


def test_finalize_reference_counts_down() -> None:
    ok(acl.init())
    assert [acl.init(), acl.init()] == [REPEAT_INIT] * 2
    assert acl.finalize_reference() == (2, 0)
    ok(acl.rt.set_device(0))  # still in force
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize_reference() == (0, 0)
    assert acl.rt.set_device(0) == UNINITIALIZE
    assert acl.finalize_reference() == (0, REPEAT_FINALIZE)


def test_init_again_after_finalize() -> None:
    for _ in range(3):
        ok(acl.init())
        ok(acl.rt.set_device(0))
        ok(acl.rt.create_stream())
        ok(acl.finalize())


def test_what_a_program_set_is_gone_after_finalize() -> None:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.rt.set_device_res_limit(0, 0, 3))
    ok(acl.rt.device_enable_peer_access(1, 0))
    ok(acl.rt.set_sys_param_opt(0, 1))
    ok(acl.rt.set_op_execute_time_out(5))
    ok(acl.rt.device_set_limit(0, 4096))
    ok(acl.finalize())
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert ok(acl.rt.get_device_res_limit(0, 0)) == 20
    assert ok(acl.rt.device_peer_access_status(0, 1)) == 0
    assert acl.rt.get_sys_param_opt(0) == (0, 107021)
    assert ok(acl.rt.get_op_execute_timeout()) == 0
    assert ok(acl.rt.device_get_limit(0)) == 1152


def test_the_first_configuration_counts(config: Callable[[Any], str]) -> None:
    ok(acl.init(config({"err_msg_mode": "0"})))
    assert acl.init("/no/such/file") == REPEAT_INIT


def test_init_after_finalize_wants_the_same_configuration(config: Callable[[Any], str]) -> None:
    ok(acl.init(config({"err_msg_mode": "1"})))
    ok(acl.finalize())
    assert acl.init() == INVALID_PARAM
    assert "configuration" in message()
    assert acl.rt.set_device(0) == UNINITIALIZE
    assert acl.finalize() == REPEAT_FINALIZE
    ok(acl.init(config({"err_msg_mode": "1"})))  # another file with the same content


def test_no_file_and_an_empty_object_are_the_same(config: Callable[[Any], str]) -> None:
    ok(acl.init())
    ok(acl.finalize())
    ok(acl.init(config({})))
    ok(acl.finalize())
    ok(acl.init(""))


# ---- the file ----------------------------------------------------------------------------------------------------------


def nested(depth: int, opening: str, closing: str, core: str = "1") -> str:
    return opening * depth + core + closing * depth


BROKEN = {
    "empty": "",
    "open": "{",
    "no value": '{"a":}',
    "single quotes": "{'a': 1}",
    "comment": "{} // nothing",
    "two values": "{}{}",
    "not a number": '{"a": NaN}',
    "list": "[]",
    "null": "null",
    "string": '"dump"',
    "braces 11 deep": nested(11, '{"a":', "}"),
    "brackets 11 deep": '{"a":' + nested(11, "[", "]") + "}",
    "100,000 brackets": '{"a":' + "[" * 100_000,
    "an endless number": '{"a": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_json_is_refused_and_forgotten(text: str, config: Callable[[Any], str]) -> None:
    assert acl.init(config(text)) == PARSE_FILE
    assert "configuration file" in message()
    assert acl.init() == 0, "a refused file must not bind the process to it"


def test_nesting_counts_braces_and_brackets_apart(config: Callable[[Any], str]) -> None:
    ok(acl.init(config(nested(10, '{"a":', "}", nested(10, "[", "]")))))


def test_braces_inside_strings_do_not_nest(config: Callable[[Any], str]) -> None:
    ok(acl.init(config({"note": "{[" * 50, 'quo"te{\\': '\\"{{{{{{{{{{{{{{{'})))


def test_a_configuration_file_has_at_most_10_mb(config: Callable[[Any], str]) -> None:
    limit = 10 * 1024 * 1024
    assert acl.init(config("{}".ljust(limit + 1))) == PARSE_FILE
    assert "10 MB" in message()
    ok(acl.init(config('{"note": "' + "{" * (limit - 20) + '"}')))


@pytest.mark.parametrize("content", [bytes(range(256)), b"\x7fELF\0\0\0", b"\xff\xfe{\0}\0", b'{"a": "\xe4"}'])
def test_a_binary_file_is_refused(content: bytes, config: Callable[[Any], str]) -> None:
    assert acl.init(config(content)) == PARSE_FILE


def test_byte_order_mark_is_no_error(config: Callable[[Any], str]) -> None:
    ok(acl.init(config(b'\xef\xbb\xbf{"err_msg_mode": "0"}')))


@pytest.mark.parametrize("name", ["", "missing.json", "missing/acl.json", "x" * 5000])
def test_path_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert acl.init(str(tmp_path / name)) == INVALID_FILE  # "" is the directory itself
    assert "cannot be read" in message()


def test_pipe_as_path_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert in_thread(lambda: acl.init(str(pipe))) == INVALID_FILE


def test_device_file_as_path() -> None:
    assert acl.init("/dev/zero") == INVALID_FILE


def test_a_relative_path_is_found(
    config: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ok(acl.init(Path(config({})).name))


# ---- what stands in it -------------------------------------------------------------------------------------------------

HERE = "the folder of the test"  # replaced by a folder that exists
REFUSED: list[tuple[dict[str, Any], int]] = [
    *[({"dump": section}, BAD_DUMP) for section in ([], "on", 5, None, [{}])],
    *[
        ({"dump": {"dump_path": HERE, "dump_list": [], **section}}, BAD_DUMP)
        for section in (
            {"dump_path": ""},
            {"dump_path": "/no/such/folder"},
            {"dump_path": 5},
            {"dump_list": {}},
            {"dump_list": ["resnet50"]},
            {"dump_list": [{"model_name": 5}]},
            {"dump_list": [{"model_name": "m", "layer": "conv1"}]},
            {"dump_list": [{"model_name": "m", "layer": [5]}]},
            {"dump_mode": "none"},
            {"dump_mode": ["all"]},
            {"dump_level": "node"},
            {"dump_op_switch": "yes"},
            {"dump_op_switch": True},
            {"dump_debug": "1"},
            {"dump_data": "numpy"},
            {"dump_scene": "every_exception"},
            {"dump_kernel_data": "printf,bogus"},
            {"dump_step": "a"},
            {"dump_step": "1|"},
            {"dump_step": "5-3"},
            {"dump_step": "3-"},
            {"dump_step": "²-³"},
            {"dump_step": 3},
            {"dump_debug": "on", "dump_list": [{"model_name": "m"}]},
            {"dump_debug": "on", "dump_op_switch": "on"},
            {"dump_scene": "lite_exception", "dump_list": [{"model_name": "m"}]},
            {"dump_scene": "aic_err_norm_dump", "dump_op_switch": "on"},
        )
    ],
    *[
        ({"dump": section}, BAD_DUMP)  # each needs a dump_path
        for section in (
            {"dump_list": [{"model_name": "m"}]},
            {"dump_op_switch": "on"},
            {"dump_debug": "on"},
            {"dump_scene": "watcher"},
        )
    ],
    *[({"profiler": section}, BAD_PROFILER) for section in ([], "on", 5, None)],
    *[
        ({"profiler": {"switch": "on", **section}}, BAD_PROFILER)
        for section in (
            {"switch": "yes"},
            {"switch": True},
            {"aic_metrics": "Everything"},
            {"aiv_metrics": "pipeutilization"},
            {"ascendcl": "l0"},
            {"runtime_api": 1},
            {"hccl": ""},
            {"task_time": "l4"},
            {"ge_api": "on"},
            {"storage_limit": "199MB"},
            {"storage_limit": "200"},
            {"storage_limit": 200},
            {"output": 5},
            {"sys_hardware_mem_freq": "often"},
            {"sys_io_sampling_freq": "0"},
            {"dvpp_freq": 50},
            {"instr_profiling_freq": "299"},
            {"host_sys": "cpu,gpu"},
            {"host_sys_usage": "disk"},
        )
    ],
    *[({"max_opqueue_num": value}, BAD_QUEUE) for value in ("0", "-1", "many", "", "1.5", 20000, None, "9" * 5000)],
    *[({"err_msg_mode": value}, INVALID_PARAM) for value in ("2", "", "process", 1, None, [])],
    *[
        ({"defaultDevice": section}, FAILURE)
        for section in (
            {},
            "0",
            {"default_device": 0},
            {"default_device": "-1"},
            {"default_device": "2"},
            {"default_device": "x"},
            {"default_device": "9" * 5000},
        )
    ],
    *[
        ({"StackSize": section}, INVALID_PARAM)
        for section in ([], {"aicore_stack_size": "32768"}, {"aicore_stack_size": 0})
    ],
]


def placed(content: dict[str, Any], folder: Path) -> str:
    return json.dumps(content).replace(HERE, str(folder))


@pytest.mark.parametrize(("content", "code"), REFUSED, ids=lambda value: json.dumps(value)[:60])
def test_a_bad_setting_is_refused_and_forgotten(
    content: dict[str, Any], code: int, config: Callable[[Any], str], tmp_path: Path
) -> None:
    assert acl.init(config(placed(content, tmp_path))) == code
    assert "Solution" in message()
    assert acl.rt.set_device(0) == UNINITIALIZE
    ok(acl.init())  # nothing of the refused file stays


ACCEPTED: list[dict[str, Any]] = [
    {"unknown": {"deep": [1, 2, 3]}, "other": None},
    {"dump": {}},
    {"dump": {"dump_path": HERE, "dump_list": [{"model_name": "m", "layer": ["conv1"]}], "dump_mode": "all"}},
    {"dump": {"dump_path": HERE, "dump_list": [], "dump_op_switch": "on", "dump_data": "stats", "dump_level": "op"}},
    {"dump": {"dump_path": HERE, "dump_list": [{}], "dump_op_switch": "on", "dump_step": "0|3-5|10"}},
    {"dump": {"dump_path": HERE, "dump_debug": "on"}},
    {"dump": {"dump_path": HERE, "dump_scene": "watcher", "dump_list": [{"layer": ["a"], "watcher_nodes": ["b"]}]}},
    {"dump": {"dump_scene": "lite_exception"}},
    {"dump": {"dump_path": HERE, "dump_kernel_data": "printf,tensor"}},
    {"profiler": {}},
    {
        "profiler": {
            "switch": "on",
            "output": HERE,
            "storage_limit": "200MB",
            "aic_metrics": "MemoryUB",
            "aiv_metrics": "L2Cache",
            "ascendcl": "off",
            "task_time": "l3",
            "ge_api": "l1",
            "sys_hardware_mem_freq": "50",
            "instr_profiling_freq": "30000",
            "llc_profiling": "read",
            "host_sys": "cpu,mem,disk,network,osrt",
            "host_sys_usage": "cpu,mem",
        }
    },
    {"max_opqueue_num": "1"},
    {"err_msg_mode": "0"},
    {"err_msg_mode": "1"},
    {"defaultDevice": {"default_device": "1"}},
    {"StackSize": {"aicore_stack_size": 32768, "simt_stack_size": 1024}, "simt_printf_fifo_size": 2097152},
    {"acl_graph": {"event_mode": "0"}},
]


@pytest.mark.parametrize("content", ACCEPTED, ids=lambda value: json.dumps(value)[:60])
def test_a_good_setting_is_accepted(content: dict[str, Any], config: Callable[[Any], str], tmp_path: Path) -> None:
    ok(acl.init(config(placed(content, tmp_path))))
    ok(acl.rt.set_device(0))


def test_a_relative_dump_path_is_accepted(
    config: Callable[[Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dumps").mkdir()
    ok(acl.init(config({"dump": {"dump_path": "dumps", "dump_list": []}})))


def test_default_device_makes_set_device_optional(config: Callable[[Any], str]) -> None:
    path = config({"defaultDevice": {"default_device": "1"}})
    ok(acl.init(path))
    ok(acl.rt.create_stream())
    assert ok(acl.rt.get_device()) == 1
    assert in_thread(acl.rt.get_device) == (1, 0), "every thread without a context uses it"
    ok(acl.rt.set_device(0))
    assert ok(acl.rt.get_device()) == 0
    ok(acl.finalize())
    ok(acl.init(path))
    assert acl.rt.get_device() == (1, 0), "a thread that used an earlier context has none after finalize"


# ---- before and after --------------------------------------------------------------------------------------------------

NEEDS_INIT: dict[str, Callable[[], Any]] = {
    "set_device": lambda: acl.rt.set_device(0),
    "reset_device": lambda: acl.rt.reset_device(0),
    "create_context": lambda: acl.rt.create_context(0),
    "get_context": acl.rt.get_context,
    "get_device": acl.rt.get_device,
    "create_stream": acl.rt.create_stream,
    "create_event": acl.rt.create_event,
    "create_notify": lambda: acl.rt.create_notify(0),
    "malloc": lambda: acl.rt.malloc(64, 0),
    "synchronize_device": acl.rt.synchronize_device,
    "synchronize_stream": lambda: acl.rt.synchronize_stream(0),
    "destroy_stream": lambda: acl.rt.destroy_stream(0x1234),
    "destroy_event": lambda: acl.rt.destroy_event(0x1234),
    "set_context": lambda: acl.rt.set_context(0x1234),
}


@pytest.mark.parametrize("call", NEEDS_INIT.values(), ids=NEEDS_INIT)
def test_nothing_works_before_init(call: Callable[[], Any]) -> None:
    answer = call()
    assert (answer[-1] if isinstance(answer, tuple) else answer) == UNINITIALIZE
    assert "acl.init" in message()


@pytest.mark.parametrize("call", NEEDS_INIT.values(), ids=NEEDS_INIT)
def test_nothing_works_after_finalize(call: Callable[[], Any]) -> None:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    ok(acl.finalize())
    answer = call()
    assert (answer[-1] if isinstance(answer, tuple) else answer) == UNINITIALIZE
    assert "acl.finalize" in message()


def test_handles_of_before_finalize() -> None:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    stream, event, context = ok(acl.rt.create_stream()), ok(acl.rt.create_event()), ok(acl.rt.create_context(0))
    ok(acl.finalize())
    calls = [
        acl.rt.destroy_stream(stream),
        acl.rt.synchronize_stream(stream),
        acl.rt.destroy_event(event),
        acl.rt.destroy_context(context),
        acl.rt.set_context(context),
    ]
    assert calls == [UNINITIALIZE] * 5
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.rt.destroy_event(event) == 107000, "a handle is never given out twice"
    assert acl.rt.destroy_stream(stream) == 107000


def test_what_needs_no_init() -> None:
    assert acl.rt.get_run_mode() == (1, 0)
    assert acl.rt.get_device_count() == (2, 0)
    assert acl.get_soc_name() == "Ascend910B3"
    assert acl.get_version()[-1] == 0
    assert acl.get_recent_err_msg() is None


def test_failed_init_in_a_bad_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_DEVICES", "none")
    assert acl.init() == INVALID_PARAM
    assert "SOFTNPU_DEVICES" in message()
    monkeypatch.delenv("SOFTNPU_DEVICES")
    ok(acl.init())


# ---- versions and attributes -------------------------------------------------------------------------------------------


def test_the_interface_version_is_that_of_cann() -> None:
    assert acl.get_version() == (1, 13, 0, 0)  # that of CANN 8.1.RC1


@pytest.mark.parametrize("package", range(8))
def test_every_package_tells_its_version(package: int) -> None:
    version = ok(acl.get_cann_version(package))
    keys = {"version", "major_version", "minor_version", "release_version", "patch_version", "reserved"}
    assert set(version) == keys
    assert all(type(value) is str for value in version.values())
    assert version["version"].split(".")[:2] == [version["major_version"], version["minor_version"]]


@pytest.mark.parametrize("package", [-1, 8])
def test_an_unknown_package_is_refused(package: int) -> None:
    assert acl.get_cann_version(package) == ({}, INVALID_PARAM)


def test_versions_are_found_by_the_name_of_the_package() -> None:
    assert ok(acl.get_version_str("runtime")) == ok(acl.get_cann_version(1))["version"]
    assert acl.get_version_str("no such package") == ("", INVALID_PARAM)


@pytest.mark.parametrize(("chip", "expected"), [("Ascend910B3", {0, 1}), ("Ascend310P3", set())])
def test_attributes_are_those_of_the_chip(chip: str, expected: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", chip)
    ok(acl.init())
    attributes, number, ret = acl.get_cann_attribute_list()
    assert (set(attributes), number, ret) == (expected, len(expected), 0)
    for attribute in (0, 1, 2):
        assert acl.get_cann_attribute(attribute) == (int(attribute in expected), 0)
    assert acl.get_cann_attribute(3) == (0, INVALID_PARAM)
    assert acl.get_cann_attribute(-1) == (0, INVALID_PARAM)


# AI cores, vector cores, L2 in MiB.
CHIPS = {
    "Ascend310P1": (10, 8, 16),
    "Ascend310P3": (8, 7, 16),
    "Ascend310B4": (1, 1, 4),
    "Ascend910A": (32, 0, 32),
    "Ascend910B": (30, 0, 32),
    "Ascend910B1": (24, 48, 192),
    "Ascend910B3": (20, 40, 192),
    "Ascend910B4": (20, 40, 96),
    "Ascend910B4-1": (20, 40, 168),
    "Ascend910_9392": (24, 48, 192),
}


@pytest.mark.parametrize("chip", CHIPS)
def test_cores_and_cache_are_those_of_the_chip(chip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", chip)
    ok(acl.init())
    assert acl.get_soc_name() == chip
    cores, vectors, l2 = CHIPS[chip]
    assert [acl.get_device_capability(1, info) for info in range(3)] == [(cores, 0), (vectors, 0), (l2 << 20, 0)]


def test_device_capability_of_nothing() -> None:
    ok(acl.init())
    assert acl.get_device_capability(2, 0) == (0, 107001)
    assert acl.get_device_capability(0, 3) == (0, INVALID_PARAM)


def test_soc_name_of_an_unknown_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_SOC", "Ascend9000")
    assert acl.get_soc_name() is None
    assert acl.init() == 507008
    assert "Ascend910B3" in message(), "the sentence names the chips there are"


# ---- half floats -------------------------------------------------------------------------------------------------------


def test_float16_to_float_for_all_patterns() -> None:
    patterns = range(65536)
    ours = np.array([acl.float16_to_float(bits) for bits in patterns])
    numpys = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    np.testing.assert_array_equal(ours, numpys)  # NaN equals NaN here
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(numpys))


def test_float_to_float16_for_all_patterns() -> None:
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    for bits, value in enumerate(values.astype(np.float64).tolist()):
        back = acl.float_to_float16(value)
        if math.isnan(value):
            assert back & 0x7C00 == 0x7C00 and back & 0x3FF, hex(bits)
        else:
            assert back == bits


def test_float_to_float16_rounds_as_numpy() -> None:
    """The argument is a C float, so there are two roundings: to float32, then to float16."""
    generator = np.random.default_rng(5)
    values = np.concatenate([generator.normal(scale=s, size=2000) for s in (1e-8, 1e-5, 1.0, 1e4, 1e6)])
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[:-1] + halves[1:]) / 2
    nearly = ties[::7] * (1 + 1e-13)  # a tie as soon as it is a float32
    with np.errstate(over="ignore"):
        for value in np.concatenate([values, ties, -ties, nearly]):
            expected = int(np.float16(np.float32(value)).view(np.uint16))
            assert acl.float_to_float16(float(value)) == expected, float(value)


@pytest.mark.parametrize(
    ("value", "bits"),
    [(1e300, 0x7C00), (-1e300, 0xFC00), (math.inf, 0x7C00), (65519.99, 0x7BFF), (65520.0, 0x7C00), (3, 0x4200)],
)
def test_float_to_float16_at_the_edges(value: float, bits: int) -> None:
    assert acl.float_to_float16(value) == bits


# ---- the end of the interpreter ----------------------------------------------------------------------------------------


def run(program: str, tmp_path: Path) -> str:
    env = {**os.environ, "HOME": str(tmp_path), "SOFTNPU_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_destructors_at_interpreter_exit(tmp_path: Path) -> None:
    program = """
import acl, os
class Net:
    def __init__(self):
        assert acl.init() == 0 and acl.rt.set_device(0) == 0
        self.context, _ = acl.rt.create_context(0)
        self.stream, _ = acl.rt.create_stream()
        self.me = self  # a cycle: only the last collection ends it
    def __del__(self):
        if acl.rt is None: return
        acl.rt.destroy_stream(self.stream); acl.rt.destroy_context(self.context)
        acl.rt.reset_device(0); acl.finalize(); acl.finalize()
        os.write(1, b"gone")  # standard output may be flushed for the last time already
net = Net()
"""
    assert run(program, tmp_path) == "gone"


def test_interpreter_exit_with_everything_under_way(tmp_path: Path) -> None:
    """Workers stand still once the interpreter ends; destructors that call us then must not wait for them."""
    program = """
import acl, os, threading
class Net:
    def __init__(self):
        assert acl.init() == 0 and acl.rt.set_device(0) == 0
        self.streams = [acl.rt.create_stream()[0] for _ in range(4)]
        self.event, self.notify = acl.rt.create_event()[0], acl.rt.create_notify(0)[0]
        self.pointer, _ = acl.rt.malloc(1 << 20, 0)
        for stream in self.streams:
            acl.rt.memset_async(self.pointer, 1 << 20, 0, 1 << 20, stream)
        acl.rt.subscribe_report(threading.get_ident(), self.streams[0])
        acl.rt.launch_callback(abs, 1, 1, self.streams[0])                 # nobody processes it
        acl.rt.wait_and_reset_notify(self.notify, self.streams[1], 0)      # never recorded
        acl.rt.record_event(self.event, self.streams[1])
        acl.rt.stream_wait_event(self.streams[2], self.event)
        self.tid, _ = acl.util.start_thread(threading.Event().wait, None)  # never ends
    def __del__(self):
        for stream in self.streams:
            acl.rt.memset_async(self.pointer, 1 << 20, 0, 1 << 20, stream)
            acl.rt.wait_and_reset_notify(self.notify, stream, 0)
            acl.rt.record_event(self.event, stream)
            acl.rt.synchronize_stream(stream)
        acl.rt.synchronize_event(self.event); acl.rt.synchronize_device()
        acl.util.stop_thread(self.tid); acl.rt.process_report(10)
        for stream in self.streams:
            acl.rt.destroy_stream(stream)
        acl.rt.free(self.pointer); acl.rt.reset_device(0); acl.finalize()
        os.write(1, b"gone")
net = Net()
"""
    assert run(program, tmp_path) == "gone"


def test_a_forked_child_begins_anew(tmp_path: Path) -> None:
    program = """
import acl, os
assert acl.init() == 0 and acl.rt.set_device(0) == 0
stream, _ = acl.rt.create_stream()
tid, ret = acl.util.start_thread(lambda: None, None)
child = os.fork()
if child == 0:
    try:
        assert acl.rt.get_device() == (0, 100001), acl.rt.get_device()
        assert acl.rt.destroy_stream(stream) == 100001
        assert acl.util.stop_thread(tid) == 100000   # a thread of the parent: waiting for it would never end
        assert acl.init() == 0 and acl.rt.set_device(1) == 0
        own, ret = acl.rt.create_stream()
        assert ret == 0 and acl.rt.synchronize_stream(own) == 0 and acl.finalize() == 0
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert acl.rt.synchronize_stream(stream) == 0 and acl.rt.get_device() == (0, 0)
assert acl.util.stop_thread(tid) == 0 and acl.finalize() == 0
"""
    assert run(program, tmp_path) == ""
