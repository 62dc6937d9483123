"""Low-level UDF classes: parameters, the run context, messages, wrappers, balance arguments."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import dataflow as df
import dataflow.flow_func as ff
from dataflow.flow_func.flowfunc_wrapper import FlowFuncLogLevel, FlowFuncLogType
from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.functions.run_context import MetaRunContext, PyMetaParams
from softnpu.flow.message import EMPTY, Message
from softnpu.flow.plan import BodySpec
from softnpu.flow.values import codec
from tests.dataflow.face.support import code_of


class Sink:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Message]] = []
        self.raised: list[tuple[int, int, int]] = []

    def send(self, output: int, message: Message) -> None:
        self.sent.append((output, message))

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        self.raised.append((code, context_id, trans_id))


def tensor_message(array: Any, trans_id: int = 1) -> Message:
    return Message(codec.encode_tensor(np.asarray(array)), 0, trans_id)


def context(sink: Sink, source: Message | None = None, outputs: int = 2, **place: Any) -> MetaRunContext:
    return MetaRunContext(InstanceInfo("node", 1, outputs, **place), sink, {n: n for n in range(outputs)}, source)


def body_of(point: df.FuncProcessPoint, place: InstanceInfo | None = None):
    work = point.work
    extra = {"functions": work.functions, "output_map": list(range(work.output_num)), "closures": {}}
    body = load(BodySpec(work.loader, {**work.data, **extra}))
    body.start(place or InstanceInfo("node", work.input_num, work.output_num, attributes=point.init_params))
    return body


class Adder:
    def __init__(self) -> None:
        self.calls = 0

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        code, self.offset = meta_params.get_attr_int("offset")
        return code

    @ff.proc_wrapper("i0,i1,o0")
    def add(self, run_context, input_flow_msgs):
        if not input_flow_msgs:
            self.seen = (run_context.get_exception(), run_context.get_exception())
            return 0
        first, second = (msg.get_tensor().numpy() for msg in input_flow_msgs)
        self.calls += 1
        return run_context.set_output(0, first + second + self.offset)

    @ff.proc_wrapper("i2,o1,o0")
    def count(self, run_context, input_flow_msgs):
        out = run_context.alloc_tensor_msg([1], df.DT_INT32)
        out.get_tensor().numpy()[0] = self.calls
        return run_context.set_output(1, out)

    @ff.proc_wrapper("i3,o2")
    def bad(self, run_context, input_flow_msgs):
        word = bytes(input_flow_msgs[0].get_tensor().numpy().tobytes())
        if word == b"\1":
            raise RuntimeError("what went wrong")
        return


def test_a_class_of_wrapped_methods_becomes_a_node(capsys) -> None:
    point = df.FuncProcessPoint(py_func=Adder)
    point.set_init_param("offset", 10)
    names = [each.name for each in point.functions]
    assert names == ["add", "bad", "count"] and point.work.input_num == 4 and point.work.output_num == 3
    body = body_of(point)
    assert body.takes_failures and body.takes_exceptions
    sink = Sink()
    assert body.call(0, [tensor_message([1, 2]), tensor_message([3, 4])], sink) == 0
    assert body.call(2, [tensor_message([0], 5)], sink) == 0
    (at, first), (at2, second) = sink.sent
    assert (at, at2) == (0, 1) and codec.decode_tensor(first).tolist() == [14, 16]
    assert codec.decode_tensor(second).tolist() == [1] and (first.trans_id, second.trans_id) == (1, 5)
    assert body.call(1, [tensor_message(np.array([1], np.uint8))], sink) == 564000
    assert "what went wrong" in capsys.readouterr().err
    assert body.call(1, [tensor_message(np.array([0], np.uint8))], sink) == 564000  # None is no code


def test_exception_notice_is_seen_once() -> None:
    point = df.FuncProcessPoint(py_func=Adder)
    point.set_init_param("offset", 0)
    body = body_of(point)
    body.notice(3, -100, 7)
    assert body.call(0, [], Sink()) == 0
    assert body._targets[0].__self__.seen == ((True, -100, 7), (False, 0, 0))
    assert body.call(0, [], Sink()) == 0
    assert body._targets[0].__self__.seen[0] == (False, 0, 0)


def test_failed_init_is_an_error_of_the_deployment() -> None:
    with pytest.raises(df.DfException) as error:
        body_of(df.FuncProcessPoint(py_func=Adder))
    assert code_of(error) == 164001


def test_a_class_without_wrapped_methods_or_with_wrong_ports_is_refused() -> None:
    class Nothing:
        pass

    with pytest.raises(df.DfException) as error:
        df.FuncProcessPoint(py_func=Nothing)
    assert code_of(error) == 564000
    for ports in (["i0,o0", "i0,o1"], ["i1,o0"], ["i0,o1"]):
        methods = {f"m{n}": ff.proc_wrapper(each)(lambda self, ctx, msgs: 0) for n, each in enumerate(ports)}
        with pytest.raises(ValueError):
            df.FuncProcessPoint(py_func=type("Bad", (), methods))
    for text in ("x0", "i", "i0 o0", "i0,i0", "", 3):
        with pytest.raises(ValueError):
            ff.proc_wrapper(text)
    for arguments in ({"py_func": 3}, {"name": 3, "py_func": Adder}, {"compile_config_path": 3}):
        with pytest.raises(TypeError):
            df.FuncProcessPoint(**arguments)


def test_init_parameters_are_read_back_with_their_types(capsys) -> None:
    values = {
        "int": 3, "ints": [1, 2], "intss": [[1], [2, 3]], "bool": True, "bools": [True, False], "float": 0.5, "floats": [0.5],
        "str": "s", "strs": ["a", "b"], "tensor_dtype": df.DT_INT8, "tensor_dtypes": [df.DT_INT8, df.DT_FLOAT],
    }  # fmt: skip
    point = df.FuncProcessPoint(py_func=Adder)
    for name, value in values.items():
        assert point.set_init_param(name, value) is None
    params = PyMetaParams(
        InstanceInfo(
            "node", 2, 1, device_id=1, instance_id=2, instance_num=3, work_path="w", attributes=point.init_params
        )
    )
    getters = {
        "int": params.get_attr_int, "ints": params.get_attr_int_list, "intss": params.get_attr_int_list_list,
        "bool": params.get_attr_bool, "bools": params.get_attr_bool_list, "float": params.get_attr_float,
        "floats": params.get_attr_float_list, "str": params.get_attr_str, "strs": params.get_attr_str_list,
    }  # fmt: skip
    fillers = {"int": -1, "bool": False, "float": 0.0, "str": ""}
    for kind, get in getters.items():
        assert get(kind) == (0, values[kind])
        assert get("missing") == (164001, fillers.get(kind, []))
        for other in values.keys() - {kind}:
            assert get(other) == (164002, fillers.get(kind, [])), (kind, other)
    assert params.get_attr_tensor_dtype("tensor_dtype") == (0, np.int8)
    assert params.get_attr_tensor_dtype_list("tensor_dtypes") == (0, [np.int8, np.float32])
    assert params.get_attr_tensor_dtype("int")[0] == params.get_attr_tensor_dtype("missing")[0] == 164001
    assert (params.get_name(), params.get_input_num(), params.get_output_num(), params.get_work_path()) == (
        "node",
        2,
        1,
        "w",
    )
    assert (params.get_running_device_id(), params.get_running_instance_id(), params.get_running_instance_num()) == (
        1,
        2,
        3,
    )
    for bad in (None, {}, [1, "a"], [[1.5]], object(), []):
        if bad != []:
            with pytest.raises(TypeError):
                point.set_init_param("x", bad)


def test_messages_of_a_context() -> None:
    source = tensor_message([1], 9)
    source.user_data, source.start_time = b"abcdef".ljust(64, b"\0"), 4
    sink = Sink()
    ctx = context(sink, source)
    msg = ctx.alloc_tensor_msg([2, 2], np.int16, 256)
    assert msg.get_tensor().numpy().ctypes.data % 256 == 0 and msg.get_start_time() == 4
    msg.get_tensor().numpy()[:] = 3
    assert msg.get_tensor().reshape([4]) == 0
    assert ctx.set_output(0, msg) == 0 and ctx.set_output(1, msg) == 0
    assert [codec.decode_tensor(sent).shape for _, sent in sink.sent] == [(4,), (4,)]
    assert sink.sent[0][1].trans_id == 9 and sink.sent[0][1].user_data[:6] == b"abcdef"
    raw = ctx.alloc_raw_data_msg(5)
    raw.get_raw_data()[:] = b"hello"
    raw.set_msg_type(3000)
    raw.set_transaction_id(11)
    raw.set_flow_flags(ff.FLOW_FLAG_EOS)
    raw.set_ret_code(9900001)
    assert ctx.set_output(0, raw) == 0
    sent = sink.sent[-1][1]
    assert (sent.msg_type, sent.trans_id, sent.flags, sent.ret_code) == (3000, 11, 1, 9900001)
    assert bytes(sent.payload.chunks[0]) == b"hello"
    empty = ctx.alloc_empty_data_msg()
    assert empty.get_tensor() is None and ctx.set_output(1, empty) == 0 and sink.sent[-1][1].null
    wrapped = ctx.to_flow_msg(df.alloc_tensor([1], df.DT_INT8))
    assert ctx.set_output(0, wrapped) == 0 and sink.sent[-1][1].payload is not EMPTY
    assert repr(raw) == "FlowMsg(msg_type=3000, ret_code=9900001, start_time=4, end_time=0, flow_flags=1)"


def test_set_output_refuses_wrong_ports_and_values(capsys) -> None:
    sink = Sink()
    ctx = context(sink, tensor_message([1]))
    assert ctx.set_output(2, np.zeros(1)) == 164000 and ctx.set_output(-1, np.zeros(1)) == 164000
    assert ctx.set_output(0, None) == 0 and sink.sent == []
    with pytest.raises(TypeError):
        ctx.set_output(0, [1, 2])
    with pytest.raises(TypeError):
        ctx.set_multi_outputs(0, [np.zeros(1), "x"], None)
    assert sink.sent == []
    for dtype in ("x", None):
        with pytest.raises(TypeError):
            ctx.alloc_tensor_msg([1], dtype)
    assert ctx.run_flow_model("nothing", [], 100) == (564000, [])


def test_user_data_is_the_requested_slice() -> None:
    source = tensor_message([1])
    source.user_data = bytes(range(64))
    ctx = context(Sink(), source)
    assert ctx.get_user_data(4, 2) == bytes([2, 3, 4, 5]) and ctx.get_user_data(64) == bytes(range(64))
    for size, offset in ((0, 0), (65, 0), (1, 64)):
        assert ctx.get_user_data(size, offset) == bytes(64)
    assert context(Sink()).get_user_data(2) == b"\0\0"


def test_raising_an_exception_needs_set_exception_catch() -> None:
    sink = Sink()
    context(sink, tensor_message([1], 6), catch=True).raise_exception(-100, 8)
    assert sink.raised == [(-100, 8, 6)]
    with pytest.raises(df.DfException, match="set_exception_catch"):
        context(sink, tensor_message([1], 6)).raise_exception(-100, 8)


def test_balance_arguments_label_the_messages() -> None:
    def send(role: str, rows: int, cols: int, policy: ff.AffinityPolicy, positions: list[tuple[int, int]], count: int):
        sink = Sink()
        config = ff.BalanceConfig(rows, cols, policy)
        config.set_data_pos(positions)
        assert config.get_inner_config() is not None
        ctx = context(sink, tensor_message([1]), balance=role)
        code = ctx.set_multi_outputs(0, [np.zeros(1) for _ in range(count)], config)
        return code, [(message.data_label, message.route_label) for _, message in sink.sent]

    no, row, col = ff.AffinityPolicy.NO_AFFINITY, ff.AffinityPolicy.ROW_AFFINITY, ff.AffinityPolicy.COL_AFFINITY
    places = [(0, 0), (0, 2), (1, 1)]  # data label: row * 3 + col + 1
    assert send("scatter", 2, 3, no, places, 3) == (0, [(1, 1), (3, 3), (5, 5)])
    assert send("gather", 2, 3, row, places, 3) == (0, [(1, 1), (3, 1), (5, 2)])
    assert send("gather", 2, 3, col, places, 3) == (0, [(1, 1), (3, 3), (5, 2)])
    for wrong in (
        ("scatter", 2, 3, row, places, 3), ("gather", 2, 3, no, places, 3), ("", 2, 3, no, places, 3),
        ("scatter", 0, 3, no, places, 3), ("scatter", 257, 256, no, places, 3), ("scatter", 2, 3, no, places, 2),
        ("scatter", 2, 2, no, places, 3), ("scatter", 2, 3, no, [(0, 0), (0, 1), (-1, 0)], 3),
    ):  # fmt: skip
        assert send(*wrong) == (164000, [])
    assert send("scatter", 256, 256, no, places, 3)[0] == 0


def test_the_logger_formats_and_keeps_to_its_level(capsys) -> None:
    from dataflow.utils import log

    before = log.get_log_level()
    try:
        log.set_log_level(log.INFO)
        ff.logger.info("value %d of %s", 3, "x")
        ff.logger.info("wrong %d", "x")
        ff.logger.debug("hidden")
        assert ff.logger.is_log_enable(FlowFuncLogType.DEBUG_LOG, FlowFuncLogLevel.INFO)
        assert not ff.logger.is_log_enable(FlowFuncLogType.DEBUG_LOG, FlowFuncLogLevel.DEBUG)
        log.set_log_level(log.ERROR)
        ff.logger.event("run %s", "line")
        assert ff.logger.is_log_enable(1, 2) is False
    finally:
        log.set_log_level(before)
    text = capsys.readouterr().out
    assert "value 3 of x" in text and "wrong %d" in text and "hidden" not in text and "run line" in text


def test_the_logger_limits_a_flood_of_lines(capsys) -> None:
    own = ff.FlowFuncLogger()
    for number in range(1500):
        own.error("line %d", number)
    assert 400 <= capsys.readouterr().out.count("line ") < 700


def test_closures_are_checked() -> None:
    point = df.FuncProcessPoint(py_func=Adder)
    model = df.GraphProcessPoint(df.Framework.ONNX, "x.onnx")
    assert point.add_invoked_closure("k", model) is point
    for key, value in (("k", model), ("other", point)):
        with pytest.raises(df.DfException):
            point.add_invoked_closure(key, value)
    with pytest.raises(df.DfException):
        df.GraphProcessPoint("ONNX", "x.onnx")
    assert (model.load_params, model.graph_file, model.compile_config_path) == ({}, "x.onnx", "")
    node = model.fnode(2, 1)
    assert (node.input_num, node.output_num, node.point) == (2, 1, model)


def test_cpp_project_is_refused_with_a_reason(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "add.json"
    path.write_text(
        json.dumps({"input_num": 1, "output_num": 1, "func_list": [{"func_name": "Add"}], "workspace": "."})
    )
    with pytest.raises(df.DfException, match=r"C\+\+.*src_python"):
        df.FuncProcessPoint(str(path))
    path.write_text("{")
    with pytest.raises(df.DfException, match=r"add\.json"):
        df.FuncProcessPoint(str(path))
