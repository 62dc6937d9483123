"""`pyflow` and `method`, the message register, and the body of plain functions."""

from __future__ import annotations

import queue
import sys
import typing
from typing import Any

import numpy as np
import pytest

import dataflow as df
from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.message import Message
from softnpu.flow.plan import BodySpec
from softnpu.flow.values import codec
from softnpu.flow.values.register import MsgTypeRegister, msg_type_register


class Sink:
    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, Message]] = []

    def send(self, output: int, message: Message) -> None:
        self.sent.append((output, codec.decode_object(message, msg_type_register), message))

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        raise AssertionError("plain functions cannot raise")

    @property
    def values(self) -> list[tuple[int, Any]]:
        return [(output, value) for output, value, _ in self.sent]


def body_of(decorated: Any, *args: Any, place: InstanceInfo | None = None, **kwargs: Any):
    """The body that a worker would have, here."""
    node = decorated.fnode(*args, **kwargs)
    work = node.point.work
    spec = BodySpec(work.loader, {**work.data, "functions": work.functions, "output_map": list(range(work.output_num))})
    body = load(spec)
    body.start(place or InstanceInfo(node.name, node.input_num, node.output_num))
    return body


def message(value: Any, trans_id: int = 1) -> Message:
    if isinstance(value, df.Tensor):
        return Message(codec.encode_tensor(value.numpy()), 0, trans_id)
    kind, payload = codec.encode_object(value, msg_type_register)
    return Message(payload, kind, trans_id)


def run(body: Any, *values: Any, function: int = 0) -> tuple[int, list[tuple[int, Any]]]:
    sink = Sink()
    return body.call(function, [message(value) for value in values], sink), sink.values


ANNOTATIONS = [
    (typing.Tuple[int, int], 2), (tuple[int, int, int], 3), (typing.List[int], 1), (typing.Dict[int, str], 2),  # noqa: UP006
    (typing.Optional[int], 2), (int | None, 2), (typing.Tuple[int, ...], 2),  # noqa: UP006, UP045
    (typing.Generator[int, None, None], 3), (int, 1), (None, 1), ("Tuple[int, int]", 1), (np.ndarray, 1),
]  # fmt: skip


@pytest.mark.parametrize("annotation, count", ANNOTATIONS)
def test_the_annotation_tells_the_number_of_outputs(annotation: Any, count: int) -> None:
    def function(a):
        return a

    function.__annotations__["return"] = annotation
    assert df.pyflow(function).output_num == count


def test_num_returns_has_to_agree_with_the_annotation(flow) -> None:
    def function(a, b=1, *c, **d):
        return a, b

    function.__annotations__["return"] = tuple[int, int]

    def plain(self, a, cls):
        return a

    decorated = df.pyflow(num_returns=2)(function)
    assert (decorated.input_num, decorated.output_num, decorated.func_name) == (4, 2, "function")
    assert df.pyflow(plain).input_num == 1 and df.pyflow(num_returns=3)(plain).output_num == 3
    for bad in (3, 1, 0, -1, "2", 2.0):
        with pytest.raises(AssertionError):
            df.pyflow(num_returns=bad)(function)
    node = decorated.fnode("ignored", x=1)
    assert (node.input_num, node.output_num, node.name) == (4, 2, "function_fnode")


def test_unknown_or_wrong_options_are_refused() -> None:
    def function(a):
        return a

    for options in (
        {"unknown": 1}, {"stream_input": None}, {"stream_input": "queue"}, {"resources": 3}, {"resources": {"gpu": 1}},
        {"choice_output": 1}, {"env_hook_func": 1}, {"resources": {"memory": "1"}},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            df.pyflow(**options)(function)
    for target in (1, "x", len, lambda: 0):
        if target is len or not callable(target):
            with pytest.raises(TypeError):
                df.pyflow(target)
    for call in (lambda: df.method(function), lambda: df.method(resources={})):
        with pytest.raises(AssertionError):
            call()
    with pytest.raises(TypeError):
        df.method(stream_input="x")


def test_a_class_becomes_a_node_with_its_methods(flow) -> None:
    @df.pyflow
    class Worker:
        """Words."""

        def __init__(self, start, step=1):
            self.value, self.step = start, step

        @df.method(num_returns=2)
        def beta(self, a):
            self.value += self.step
            return a, self.value

        @df.method()
        def alpha(self, a, b):
            return a - b + self.helper()

        def helper(self):
            return 100

    assert Worker.__doc__ == "Words." and Worker.__name__ == "Worker"
    for call in (lambda: Worker(1), lambda: Worker()):
        with pytest.raises(TypeError, match="fnode"):
            call()
    first, second = Worker.fnode(5), Worker.fnode(5, step=2)
    assert [first.name, second.name] == ["Worker_fnode", "Worker_fnode_1"]
    assert (first.input_num, first.output_num) == (3, 3)
    functions = {each.name: (each.inputs, each.outputs) for each in first.point.functions}
    assert functions == {"alpha": ((0, 1), (0,)), "beta": ((2,), (1, 2))}
    data = df.FlowData()
    assert first.alpha(data, data).index == 0 and [each.index for each in first.beta(data)] == [1, 2]
    with pytest.raises(df.DfException):
        first.alpha(data)
    with pytest.raises(df.DfException, match=r"Input 0 of node Worker_fnode_1.*alpha"):
        df.FlowGraph(list(second.beta(data)))
    body = body_of(Worker, 5, step=2)
    assert run(body, 3, 1, function=0) == (0, [(0, 102)])
    assert run(body, "x", function=1) == (0, [(1, "x"), (2, 7)])
    assert run(body, "x", function=1) == (0, [(1, "x"), (2, 9)])


def test_classes_that_use_reserved_names_or_have_no_method_are_refused() -> None:
    for name in ("fnode", "_fnode", "_df_from_class"):
        with pytest.raises(TypeError, match=name):
            df.pyflow(type("Bad", (), {name: None}))

    @df.pyflow
    class Empty:
        pass

    with pytest.raises(TypeError, match="method"):
        Empty.fnode()


class Base:
    def __init__(self):
        self.word = "base"


@df.pyflow
class Old(Base):
    def __init__(self):
        super(Old, self).__init__()  # noqa: UP008 as older programs write it

    @df.method()
    def go(self, a):
        return self.word + a


@df.pyflow
class Mixed(Base):
    def __init__(self):
        super().__init__()
        self.same = isinstance(self, Mixed)

    @df.method()
    def go(self, a):
        return self.word + a if self.same else None


def test_classes_that_name_themselves(flow) -> None:
    for _ in range(2):
        assert run(body_of(Old), "!") == (0, [(0, "base!")])
        assert run(body_of(Mixed), "!") == (0, [(0, "base!")])
    with pytest.raises(TypeError):
        Old()


def test_a_plain_function_gets_and_gives_its_values(flow) -> None:
    @df.pyflow
    def add(a, b):
        return a + b

    body = body_of(add)
    assert run(body, 1, 2) == (0, [(0, 3)])
    code, [(_, array)] = run(body, np.array([1, 2]), np.array([3, 4]))
    assert code == 0 and type(array) is np.ndarray and array.tolist() == [4, 6]
    assert body.takes_failures is False and body.takes_exceptions is False


def test_tensors_and_none_pass_as_they_are(flow) -> None:
    @df.pyflow
    def kinds(a):
        return None if a is None else df.Tensor(a.numpy() * 2)

    body = body_of(kinds)
    assert run(body, None) == (0, [(0, None)])
    code, [(_, tensor)] = run(body, df.Tensor([1, 2]))
    assert code == 0 and isinstance(tensor, df.Tensor) and tensor.numpy().tolist() == [2, 4]


def test_results_take_over_the_envelope(flow) -> None:
    @df.pyflow
    def second(a, b):
        return b

    body, sink = body_of(second), Sink()
    empty, full = Message(trans_id=7), message("x", 7)
    full.user_data, full.start_time, full.end_time, full.flags = b"u" * 64, 3, 4, 2
    assert body.call(0, [empty, full], sink) == 0
    out = sink.sent[0][2]
    assert (out.trans_id, out.user_data, out.start_time, out.end_time, out.flags) == (7, b"u" * 64, 3, 4, 2)


def test_every_value_a_generator_yields_is_a_message(flow) -> None:
    @df.pyflow
    def count(n):
        yield from range(n)

    @df.pyflow(num_returns=2)
    def pairs(n):
        for index in range(n):
            yield index, -index

    assert run(body_of(count), 5) == (0, [(0, index) for index in range(5)])
    assert run(body_of(pairs), 2) == (0, [(0, 0), (1, 0), (0, 1), (1, -1)])


def test_choice_output_decides_which_outputs_are_sent(flow) -> None:
    @df.pyflow(num_returns=2, choice_output=lambda value: value is not None)
    def either(a):
        return (a, None) if a > 0 else (None, a)

    body = body_of(either)
    assert run(body, 3) == (0, [(0, 3)]) and run(body, -3) == (0, [(1, -3)])

    @df.pyflow(choice_output=lambda value: value % 2 == 0)
    def even(a):
        return a

    assert run(body_of(even), 2) == (0, [(0, 2)]) and run(body_of(even), 3) == (0, [])


@pytest.mark.parametrize("result", [(1,), (1, 2, 3), [1, 2], 5, None])
def test_a_wrong_number_of_results_is_564000(flow, capsys, result) -> None:
    @df.pyflow(num_returns=2)
    def wrong(a):
        return result

    assert run(body_of(wrong), 1) == (564000, [])
    assert "2 outputs" in capsys.readouterr().out


def test_an_exception_is_a_code_and_an_abort_is_silence(flow, capsys) -> None:
    @df.pyflow
    def fails(a):
        if a == "abort":
            raise df.DfAbortException("end", 564004)
        if a == "unpicklable":
            return sys._getframe()
        raise RuntimeError("what went wrong")

    body = body_of(fails)
    assert run(body, "abort") == (0, [])
    assert run(body, 1) == (564000, [])
    text = capsys.readouterr()
    assert "what went wrong" in text.err and "Traceback" in text.err and "what went wrong" in text.out
    assert run(body, "unpicklable") == (564000, [])


def test_message_types_that_are_not_for_functions(flow) -> None:
    @df.pyflow
    def same(a):
        return bytes(a)

    body = body_of(same)
    for number, code in ((2, 564000), (1022, 564000), (4000, 0)):
        raw = Message(codec.Payload(codec.RAW, b"", (b"abc",)), number, 1)
        sink = Sink()
        assert body.call(0, [raw], sink) == code
        assert sink.values == ([] if code else [(0, b"abc")])  # an unknown type of the user's own comes as memoryview


class Inlet:
    maxsize = 4

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.waited: list[float | None] = []

    def take(self, timeout: float | None) -> Message:
        self.waited.append(timeout)
        if not self.values:
            if timeout is None:
                raise df.DfAbortException("end", 564004)
            raise queue.Empty
        return message(self.values.pop(0))

    def qsize(self) -> int:
        return len(self.values)


def test_a_stream_input_is_a_python_queue(flow) -> None:
    @df.pyflow(stream_input="Queue")
    def mix(a, b):
        assert isinstance(a, queue.Queue) and a.maxsize == 4
        first, second = a.get(), a.get(timeout=250)
        try:
            b.get_nowait()
            b.get(timeout=100)
        except queue.Empty:
            other = None
        return first + second, other, a.qsize(), a.empty(), a.full()

    node = mix.fnode()
    assert node.point.functions[0].stream
    body, sink = body_of(mix), Sink()
    inlets = [Inlet([1, 2, 3]), Inlet([9])]
    assert body.stream(0, inlets, sink) == 0
    assert sink.values == [(0, (3, None, 1, False, False))] and sink.sent[0][2].trans_id == 0
    assert inlets[0].waited == [None, 0.25] and inlets[1].waited == [0, 0.1]
    inlets[0].values.clear()
    assert body.stream(0, inlets, sink) == 0 and len(sink.sent) == 1  # aborted: not an error


def test_the_queue_of_a_stream_can_only_be_read(flow) -> None:
    from softnpu.flow.functions.run_context import FlowMsgQueue

    line = FlowMsgQueue(Inlet([df.Tensor([1]), None]), MsgTypeRegister())
    assert line.get().numpy().tolist() == [1] and line.get() is None
    with pytest.raises(ValueError):
        line.get(timeout=-1)
    with pytest.raises(queue.Empty):
        line.get(block=False)
    for call in (lambda: line.put(1), lambda: line.put_nowait(1), line.task_done, line.join):
        with pytest.raises(NotImplementedError):
            call()


ORDER: list[str] = []


def hook() -> None:
    import builtins

    builtins._face_hook_ran = True


def test_hook_runs_before_the_object_is_loaded(flow) -> None:
    import builtins

    class Telltale:
        def __reduce__(self):
            return _loaded, ()

    telltale = Telltale()

    @df.pyflow(env_hook_func=hook)
    def function(a):
        return a, telltale

    ORDER.clear()
    try:
        body = body_of(function)
        assert ORDER == ["loaded after hook"]
        assert run(body, 1)[0] == 0
    finally:
        del builtins._face_hook_ran


def _loaded() -> str:
    import builtins

    ORDER.append("loaded after hook" if hasattr(builtins, "_face_hook_ran") else "loaded first")
    return "telltale"


def test_running_ids_are_known_inside_a_node_only(flow, capsys) -> None:
    @df.pyflow
    class Where:
        def __init__(self):
            self.device = df.get_running_device_id()

        @df.method()
        def go(self, a):
            return self.device, df.get_running_instance_id(), df.get_running_instance_num()

    body = body_of(Where, place=InstanceInfo("n", 1, 1, device_id=3, instance_id=1, instance_num=2))
    assert run(body, 0) == (0, [(0, (3, 1, 2))])
    for ask in (df.get_running_device_id, df.get_running_instance_id, df.get_running_instance_num):
        assert ask() is None
        assert ask.__name__ in capsys.readouterr().out


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Child(Point):
    pass


def test_a_message_type_and_its_class_are_registered_once() -> None:
    register = MsgTypeRegister()
    dumps, loads = (lambda point: str(point.x).encode()), (lambda data: Point(int(bytes(data))))
    register.register(1024, Point, dumps, loads)
    register.register(1024, Point, dumps, loads, lambda point: 3)
    for number, clz in ((1025, Point), (1024, Child), (65535, Child)):
        with pytest.raises(df.DfException) as error:
            register.register(number, clz, dumps, loads)
        assert error.value.error_code == 145000
    assert register.registered(1024) and register.registered(65535) and not register.registered(1025)
    assert register.get_msg_type(Point) == 1024 and register.get_msg_type(Child) is None
    assert register.get_serialize_func(1024) is dumps and register.get_deserialize_func(1024) is loads
    assert register.get_size_func(1024)(None) == 3 and register.get_size_func(7) is None
    again = MsgTypeRegister.loads(register.dumps())
    assert again.get_deserialize_func(1024)(b"12").x == 12
    assert MsgTypeRegister().dumps() is None
    assert register.get_deserialize_func(65535)(register.get_serialize_func(65535)([1])) == [1]


def test_register_is_taken_when_the_node_is_made(flow, monkeypatch) -> None:
    from softnpu.flow.values import register as module

    own = MsgTypeRegister()
    monkeypatch.setattr(module, "msg_type_register", own)

    @df.pyflow
    def same(a):
        return a.x if isinstance(a, Point) else bytes(a)

    early = body_of(same)
    own.register(2000, Point, lambda point: str(point.x).encode(), lambda data: Point(int(bytes(data))))
    late = body_of(same)
    kind, payload = codec.encode_object(Point(5), own)
    for body, expected in ((early, b"5"), (late, 5)):
        sink = Sink()
        assert body.call(0, [Message(payload, kind, 1)], sink) == 0 and sink.values == [(0, expected)]


def test_entry_with_a_context(flow) -> None:
    from softnpu.flow.functions.run_context import FlowMsg, MetaRunContext

    @df.pyflow
    def add(a, b):
        return a + b

    sink = Sink()
    context = MetaRunContext(InstanceInfo("n", 2, 1), sink, {0: 0}, None)
    assert add(context, [FlowMsg(message(1)), FlowMsg(message(2))]) == 0 and sink.values == [(0, 3)]
    failed = message(1)
    failed.ret_code = 9900001
    assert add(context, [FlowMsg(failed), FlowMsg(message(2))]) == 564000


def test_what_cannot_travel_is_told_when_the_node_is_made(flow) -> None:
    frame = sys._getframe()

    @df.pyflow
    def function(a):
        return frame

    with pytest.raises(TypeError, match="function"):
        function.fnode()
