"""acl.op: finding and running single operators, attributes, shapes, kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from softnpu.runtime.process import reset
from tests.faces.acl.operators.support import Tensor, compile_ops, empty, execute, row
from tests.support import Hold, message, ok

X = np.arange(12, dtype=np.int32).reshape(3, 4)
ADD = row("Add", [("int32", [3, 4])] * 2, [("int32", [3, 4])])
pytestmark = pytest.mark.usefixtures("runtime")


def add(stream: int = 0) -> tuple[int, Tensor]:
    made = empty(np.int32, 3, 4)
    return execute("Add", [Tensor(X), Tensor(X * 10)], [made], 0, stream), made


# ---- finding and running ---------------------------------------------------------------------------------------------


def test_a_known_type_runs_without_a_model() -> None:
    code, made = add()
    assert code == 0
    ok(acl.rt.synchronize_stream(0))
    np.testing.assert_array_equal(made.array(), X * 11)


def test_the_older_twin_does_the_same() -> None:
    one, made = Tensor(X), empty(np.int32, 3, 4)
    ok(acl.op.execute("Add", [one.desc, one.desc], [one.buffer, one.buffer], [made.desc], [made.buffer], 0, 0))
    np.testing.assert_array_equal(made.array(), X * 2)


def test_work_waits_for_its_turn_on_the_stream() -> None:
    stream = ok(acl.rt.create_stream())
    with Hold(stream):
        code, made = add(stream)
        assert code == 0
        assert (made.array() == 77).all()
    ok(acl.rt.synchronize_stream(stream))
    np.testing.assert_array_equal(made.array(), X * 11)


def test_loaded_models_are_used(tmp_path: Path) -> None:
    compile_ops(tmp_path, [ADD])
    ok(acl.op.set_model_dir(str(tmp_path)))
    code, made = add()
    assert code == 0
    np.testing.assert_array_equal(made.array(), X * 11)


def test_where_models_of_a_type_are_loaded_one_must_fit(tmp_path: Path) -> None:
    compile_ops(tmp_path, [row("Add", [("int32", [8, 16])] * 2, [("int32", [8, 16])])])
    ok(acl.op.set_model_dir(str(tmp_path)))
    assert add()[0] == 100024
    assert "int32 ND [8, 16]" in message()
    made = empty(np.int32, 3, 4)
    assert execute("Sub", [Tensor(X), Tensor(X)], [made]) == 0  # no model of this type is loaded


@pytest.mark.parametrize("type_", ["NoSuchOperator", "add", "../relu", "", "_lower"])
def test_unknown_types_are_refused(type_: str) -> None:
    code = execute(type_, [Tensor(X)], [empty(np.int32, 3, 4)])
    assert code == (100000 if not type_ else 100024)


def test_strict_mode_needs_a_loaded_model(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_CHECK", "strict")
    reset()
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert add()[0] == 100024
    compile_ops(tmp_path, [ADD])
    ok(acl.op.set_model_dir(str(tmp_path)))
    assert add()[0] == 0


def test_folders_are_searched_three_levels_deep(tmp_path: Path) -> None:
    compile_ops(tmp_path / "a" / "b", [ADD])
    compile_ops(tmp_path / "a" / "b" / "c", [row("Sub", [("int32", [1])] * 2, [("int32", [1])])])
    ok(acl.op.set_model_dir(str(tmp_path)))
    assert add()[0] == 0
    assert (
        execute("Sub", [Tensor(X), Tensor(X)], [empty(np.int32, 3, 4)]) == 0
    )  # its model is too deep, so none is loaded


def test_set_model_dir_answers(tmp_path: Path) -> None:
    assert acl.op.set_model_dir(str(tmp_path / "none")) == 100014
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.om").write_bytes(b"no model")
    assert acl.op.set_model_dir(str(tmp_path / "bad")) == 100014
    (tmp_path / "good").mkdir()
    assert acl.op.set_model_dir(str(tmp_path / "good")) == 0
    assert acl.op.set_model_dir(str(tmp_path / "good")) == 100002


def test_a_single_operator_is_loaded_from_memory(tmp_path: Path) -> None:
    data = compile_ops(tmp_path, [ADD])[0].read_bytes()
    assert acl.op.load(acl.util.bytes_to_ptr(data), 0) == 100000
    assert acl.op.load(0, len(data)) == 100000
    assert acl.op.load(acl.util.bytes_to_ptr(data), 100) != 0
    ok(acl.op.load(acl.util.bytes_to_ptr(data), len(data)))
    assert add()[0] == 0
    assert execute("Add", [Tensor(X[:1]), Tensor(X[:1])], [empty(np.int32, 1, 4)]) == 100024


def test_attributes_are_part_of_the_match(tmp_path: Path) -> None:
    value = [{"name": "value", "type": "float", "value": 0.1}]
    compile_ops(tmp_path, [row("Muls", [("float", [3])], [("float", [3])], value)])
    ok(acl.op.set_model_dir(str(tmp_path)))
    x = np.array([1, 2, 3], np.float32)
    attr, made = acl.op.create_attr(), empty(np.float32, 3)
    assert execute("Muls", [Tensor(x)], [made], attr) == 100024
    ok(acl.op.set_attr_float(attr, "value", 0.2))
    assert execute("Muls", [Tensor(x)], [made], attr) == 100024
    ok(acl.op.set_attr_float(attr, "value", 0.1))
    assert execute("Muls", [Tensor(x)], [made], attr) == 0
    np.testing.assert_allclose(made.array(), x * 0.1, rtol=1e-6)


def test_counts_and_sizes_are_checked_at_once() -> None:
    one, made = Tensor(X), empty(np.int32, 3, 4)
    assert acl.op.execute_v2("Add", [one.desc, one.desc], [one.buffer], [made.desc], [made.buffer], 0, 0) == 100000
    short = acl.create_data_buffer(made.address, 4)
    assert (
        acl.op.execute_v2("Add", [one.desc, one.desc], [one.buffer, one.buffer], [made.desc], [short], 0, 0) == 100000
    )
    null = acl.create_data_buffer(0, 48)
    assert (
        acl.op.execute_v2("Add", [one.desc, one.desc], [one.buffer, null], [made.desc], [made.buffer], 0, 0) == 100000
    )
    assert (made.array() == 77).all()


def test_tensors_that_do_not_go_together() -> None:
    assert execute("Add", [Tensor(X), Tensor(X[:, :3].copy())], [empty(np.int32, 3, 4)]) == 100024
    assert execute("Add", [Tensor(X), Tensor(X)], [empty(np.float32, 3, 4)]) == 100024


def test_empty_outputs_need_no_run() -> None:
    nothing = Tensor(np.zeros((0, 4), np.int32))
    assert execute("NoSuchOperator", [Tensor(X)], [nothing]) == 0


def test_an_output_may_lie_over_an_input() -> None:
    one = Tensor(X.astype(np.float32))
    attr = acl.op.create_attr()
    ok(acl.op.set_attr_list_int(attr, "perm", [1, 0]))
    flipped = acl.create_tensor_desc(0, [4, 3], 2)
    ok(acl.op.execute_v2("TransposeD", [one.desc], [one.buffer], [flipped], [one.buffer], attr, 0))
    np.testing.assert_array_equal(one.array((4, 3)), X.T)


def test_dynamic_outputs_tell_their_dims() -> None:
    x = np.array([[0, 1], [2, 0]], np.float32)
    made = empty(np.int64, 4, 2)
    ok_code = execute("NonZero", [Tensor(x)], [made])
    assert ok_code == 0, message()
    assert [acl.get_tensor_desc_dim_v2(made.desc, i) for i in range(2)] == [(2, 0), (2, 0)]
    np.testing.assert_array_equal(made.array((2, 2)), np.argwhere(x))


def test_a_model_with_a_range_serves_the_shapes_inside(tmp_path: Path) -> None:
    rows = row("Relu", [("float", [-1, 4])], [("float", [-1, 4])])
    rows["input_desc"][0]["shape_range"] = [[1, 3]]
    compile_ops(tmp_path, [rows])
    ok(acl.op.set_model_dir(str(tmp_path)))
    x = (X - 5).astype(np.float32)
    made = empty(np.float32, 3, 4)
    assert execute("Relu", [Tensor(x)], [made]) == 0
    np.testing.assert_array_equal(made.array(), np.maximum(x, 0))
    assert execute("Relu", [Tensor(np.zeros((5, 4), np.float32))], [empty(np.float32, 5, 4)]) == 100024


def test_constants_come_from_the_description() -> None:
    perm = np.array([1, 0], np.int32)
    const = acl.create_tensor_desc(3, [2], 2)
    ok(acl.set_tensor_const(const, acl.util.bytes_to_ptr(perm.tobytes()), perm.nbytes))
    one, made, null = Tensor(X), empty(np.int32, 4, 3), acl.create_data_buffer(0, 0)
    ok(acl.op.execute_v2("Transpose", [one.desc, const], [one.buffer, null], [made.desc], [made.buffer], 0, 0))
    np.testing.assert_array_equal(made.array(), X.T)


def test_optional_inputs_may_be_absent() -> None:
    x = np.random.default_rng(1).standard_normal((1, 4, 2, 2)).astype(np.float32)
    absent, null = acl.create_tensor_desc(-1, [], -1), acl.create_data_buffer(0, 0)
    attr = acl.op.create_attr()
    ok(acl.op.set_attr_int(attr, "num_groups", 2))
    ok(acl.op.set_attr_bool(attr, "activate_silu", 0))
    one, outs = Tensor(x), [empty(np.float32, 1, 4, 2, 2), empty(np.float32, 1, 2), empty(np.float32, 1, 2)]
    code = acl.op.execute_v2(
        "GroupNormSilu",
        [one.desc, absent, absent],
        [one.buffer, null, null],
        [o.desc for o in outs],
        [o.buffer for o in outs],
        attr,
        0,
    )
    assert code == 0, message()
    flat = x.reshape(1, 2, 8)
    np.testing.assert_allclose(outs[1].array(), flat.mean(2), rtol=1e-5, atol=1e-6)


def test_the_cache_forgets_the_oldest() -> None:
    assert acl.op.set_max_op_queue_num(0) == 100000
    ok(acl.op.set_max_op_queue_num(1))
    for _ in range(2):
        assert add()[0] == 0
        assert execute("Sub", [Tensor(X), Tensor(X)], [empty(np.int32, 3, 4)]) == 0


# ---- handles and cast ------------------------------------------------------------------------------------------------


def test_handles_run_again_and_again() -> None:
    one, two, made = Tensor(X), Tensor(X), empty(np.int32, 3, 4)
    handle = ok(acl.op.create_handle("Add", [one.desc, two.desc], [made.desc], 0))
    for _ in range(3):
        ok(acl.op.execute_with_handle(handle, [one.buffer, two.buffer], [made.buffer], 0))
    np.testing.assert_array_equal(made.array(), X * 2)
    assert acl.op.execute_with_handle(handle, [one.buffer], [made.buffer], 0) == 100021
    assert acl.op.execute_with_handle(handle, [one.buffer, two.buffer], [], 0) == 100022
    assert acl.op.destroy_handle(handle) is None
    assert acl.op.execute_with_handle(handle, [one.buffer, two.buffer], [made.buffer], 0) != 0
    assert acl.op.create_handle("NoSuchOperator", [one.desc], [made.desc], 0) == (0, 100024)


def test_cast_rounds_as_numpy_does() -> None:
    x = np.array([1.5, -2.5, 6.1e-5], np.float32)
    one, made = Tensor(x), empty(np.float16, 3)
    ok(acl.op.cast(one.desc, one.buffer, made.desc, made.buffer, 0, 0))
    np.testing.assert_array_equal(made.array(), x.astype(np.float16))
    assert acl.op.cast(one.desc, one.buffer, made.desc, made.buffer, 1, 0) == 100000
    handle = ok(acl.op.create_handle_for_cast(one.desc, made.desc, 0))
    ok(acl.op.execute_with_handle(handle, [one.buffer], [made.buffer], 0))
    assert acl.op.create_handle_for_cast(one.desc, made.desc, 1) == (0, 100000)


def test_cast_finds_its_model_whatever_attributes_it_was_made_with(tmp_path: Path) -> None:
    attrs = [{"name": "dst_type", "type": "int", "value": 1}, {"name": "truncate", "type": "bool", "value": False}]
    compile_ops(tmp_path, [row("Cast", [("float", [3])], [("float16", [3])], attrs)])
    ok(acl.op.set_model_dir(str(tmp_path)))
    one, made = Tensor(np.ones(3, np.float32)), empty(np.float16, 3)
    ok(acl.op.cast(one.desc, one.buffer, made.desc, made.buffer, 0, 0))
    np.testing.assert_array_equal(made.array(), np.ones(3))


# ---- attributes ------------------------------------------------------------------------------------------------------


def test_setters_and_their_answers() -> None:
    attr = acl.op.create_attr()
    assert acl.op.set_attr_bool(attr, "a", True) == 0
    assert acl.op.set_attr_int(attr, "b", -5) == 0
    assert acl.op.set_attr_float(attr, "c", 1) == 0
    assert acl.op.set_attr_string(attr, "d", "text") == 0
    assert acl.op.set_attr_data_type(attr, "e", 1) == (attr, 0)
    assert acl.op.set_attr_list_bool(attr, "f", [True, 0]) == 0
    assert acl.op.set_attr_list_int(attr, "g", [1, 2]) == 0
    assert acl.op.set_attr_list_float(attr, "h", [1, 2.5]) == 0
    assert acl.op.set_attr_list_string(attr, "i", ["a"]) == 0
    assert acl.op.set_attr_list_list_int(attr, "j", [[1], [2, 3]]) == 0
    assert acl.op.set_attr_list_data_type(attr, "k", [0, 1]) == (attr, 0)
    assert acl.op.set_attr_list_int(attr, "l", np.array([1, 2])) == 0
    assert acl.op.set_attr_int(attr, "", 1) == 100000
    assert acl.op.destroy_attr(attr) is None
    assert acl.op.set_attr_int(attr, "b", 1) != 0


@pytest.mark.parametrize(
    ("setter", "value"),
    [("set_attr_list_int", "ab"), ("set_attr_list_int", [1.5]), ("set_attr_list_int", 3), ("set_attr_list_float", ["a"]), ("set_attr_list_bool", None)],
)  # fmt: skip
def test_lists_of_the_wrong_kind_raise(setter: str, value: Any) -> None:
    with pytest.raises(TypeError):
        getattr(acl.op, setter)(acl.op.create_attr(), "a", value)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def infer(op_type: str, inputs: list[Tensor], outputs: int, buffers: list[int] | None = None) -> list[list[int]]:
    descs = [acl.create_tensor_desc(0, [], 2) for _ in range(outputs)]
    given = [one.buffer for one in inputs] if buffers is None else buffers
    ok(acl.op.infer_shape(op_type, [one.desc for one in inputs], given, outputs, descs, 0))
    return [[ok(acl.get_tensor_desc_dim_v2(one, i)) for i in range(acl.get_tensor_desc_num_dims(one))] for one in descs]


def test_shapes_are_inferred_from_shapes_and_values() -> None:
    assert infer("Add", [Tensor(X), Tensor(X[:1])], 1) == [[3, 4]]
    shape = Tensor(np.array([2, 6], np.int64))
    assert infer("Reshape", [Tensor(X), shape], 1) == [[2, 6]]


def test_infer_shape_of_what_only_a_run_tells() -> None:
    x, desc = Tensor(X), acl.create_tensor_desc(0, [], 2)
    ok(acl.op.infer_shape("NonZero", [x.desc], [x.buffer], 1, [desc], 0))
    assert ok(acl.get_tensor_desc_dim_v2(desc, 0)) == -1
    assert ok(acl.get_tensor_desc_dim_range(desc, 0, 2)) == [0, 12]
    assert ok(acl.get_tensor_desc_dim_v2(desc, 1)) == 2
    assert acl.get_tensor_desc_type(desc) == 9


def test_unknown_operators_and_wrong_counts_cannot_be_inferred() -> None:
    x, desc = Tensor(X), acl.create_tensor_desc(0, [], 2)
    assert acl.op.infer_shape("NoSuchOperator", [x.desc], [x.buffer], 1, [desc], 0) == 100024
    assert acl.op.infer_shape("Add", [x.desc, x.desc], [x.buffer] * 2, 2, [desc], 0) == 100000
    assert acl.op.infer_shape("Add", [x.desc, x.desc], [x.buffer], 1, [desc], 0) == 100000


# ---- kernels ---------------------------------------------------------------------------------------------------------


def kernel(op_type: str, kernel_id: str, data: bytes = b"binary") -> int:
    code: int = acl.op.create_kernel(op_type, kernel_id, kernel_id, acl.util.bytes_to_ptr(data), len(data), 1, 0)
    return code


def test_a_selector_chooses_and_the_built_in_meaning_runs() -> None:
    seen: list[Any] = []
    sizes = np.array([64, 128], np.uint64).tobytes()

    def select(in_num: int, ins: list[int], out_num: int, outs: list[int], attr: int, desc: int) -> int:
        seen.append((in_num, ins, out_num, outs, attr))
        assert acl.get_tensor_desc_type(ins[0]) == 3
        tiling = np.array([1, 2, 3], np.int32).tobytes()
        ok(acl.op.set_kernel_args(desc, "k0", 4, acl.util.bytes_to_ptr(tiling), len(tiling)))
        ok(acl.op.set_kernel_workspace_sizes(desc, 2, acl.util.bytes_to_ptr(sizes)))
        seen.append(desc)
        return 0

    ok(acl.op.register_compile_func("add", select))
    ok(kernel("add", "k0"))
    one, made, attr = Tensor(X), empty(np.int32, 3, 4), acl.op.create_attr()
    assert execute("add", [one, one], [made], attr) == 100024  # nothing was chosen yet
    ok(acl.op.update_params("add", [one.desc] * 2, [made.desc], attr))
    assert seen[0] == (2, [one.desc] * 2, 1, [made.desc], attr)
    ok(execute("add", [one, one], [made], attr))
    np.testing.assert_array_equal(made.array(), X * 2)
    assert acl.op.set_kernel_args(seen[1], "k0", 1, 0, 0) != 0  # the description lived inside the selector only


def test_kernels_are_registered_once_and_before_use() -> None:
    assert acl.op.update_params("mine", [], [], 0) == 100028
    ok(acl.op.register_compile_func("mine", lambda *_: 0))
    assert acl.op.register_compile_func("mine", lambda *_: 0) == 100030
    assert acl.op.update_params("mine", [], [], 0) == 100029
    ok(kernel("mine", "k"))
    assert kernel("mine", "k") == 100031
    assert kernel("", "k") == 100000
    assert acl.op.create_kernel("mine", "z", "z", 0, 5, 1, 0) == 100000
    assert acl.op.create_kernel("mine", "z", "z", acl.util.bytes_to_ptr(b"binary"), 6, 7, 0) == 100000
    ok(acl.op.unregister_compile_func("mine"))
    assert acl.op.update_params("mine", [], [], 0) == 100028
    with pytest.raises(TypeError, match="parameter must be callable"):
        acl.op.register_compile_func("mine", 5)


def test_a_kernel_without_a_meaning_says_that_it_cannot_run() -> None:
    def select(*args: Any) -> int:
        return int(acl.op.set_kernel_args(args[5], "k", 1, 0, 0))

    ok(acl.op.register_compile_func("my_own", select))
    ok(kernel("my_own", "k"))
    one, made = Tensor(X), empty(np.int32, 3, 4)
    ok(acl.op.update_params("my_own", [one.desc], [made.desc], 0))
    assert execute("my_own", [one], [made]) == 200001
    assert "binary for an NPU" in message()


def test_a_selector_that_fails() -> None:
    ok(acl.op.register_compile_func("a", lambda *_: 100000))
    assert acl.op.update_params("a", [], [], 0) == 100000

    def broken(*_: Any) -> int:
        raise KeyError("oops")

    ok(acl.op.register_compile_func("b", broken))
    assert acl.op.update_params("b", [], [], 0) == 500001


def test_dumping_arguments_says_that_it_is_not_there(tmp_path: Path) -> None:
    assert acl.op.start_dump_args(2, str(tmp_path)) == 100000
    assert acl.op.start_dump_args(1, str(tmp_path)) == 200001
    assert acl.op.stop_dump_args(1) == 200001


# ---- operators that NumPy computes, and nasty pointers ----------------------------------------------------------------


def test_operators_without_an_onnx_form_run() -> None:
    rng = np.random.default_rng(5)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2, 4), (9, 20), (20,)))
    outs = [empty(np.float32, 3, 2, 5) for _ in range(8)]
    assert execute("DynamicRNN", [Tensor(x), Tensor(w), Tensor(b)], outs) == 0, message()
    ok(acl.rt.synchronize_stream(0))
    h = c = np.zeros((2, 5))
    for step in range(3):
        i, j, f, o = np.split(np.concatenate([x[step], h], 1) @ w + b, 4, 1)
        c = c / (1 + np.exp(-f)) + np.tanh(j) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(outs[0].array()[step], h, rtol=1e-4, atol=1e-5)


def test_storage_formats_of_descriptions() -> None:
    x = np.random.default_rng(6).standard_normal((18, 20)).astype(np.float16)
    blocks = np.zeros((2, 2, 16, 16), np.float16)
    for i, j in np.ndindex(*x.shape):
        blocks[j // 16, i // 16, i % 16, j % 16] = x[i, j]
    one, made = Tensor(blocks, dims=[18, 20]), empty(np.float16, 18, 20)
    ok(acl.set_tensor_storage_format(one.desc, 29))
    ok(acl.set_tensor_storage_shape(one.desc, [2, 2, 16, 16]))
    assert execute("Relu", [one], [made]) == 0, message()
    np.testing.assert_array_equal(made.array(), np.maximum(x, 0))


@pytest.mark.parametrize("pointer", [1, 4096, 1 << 47, (1 << 64) - 1])
@pytest.mark.parametrize("size", [1, 4096, (1 << 31) - 1])
def test_nasty_pointers_are_codes(pointer: int, size: int) -> None:
    assert acl.op.load(pointer, size) != 0
    assert acl.op.create_kernel("mine", "k", "k", pointer, size, 1, 0) != 0
    one, made = Tensor(X), empty(np.int32, 3, 4)
    wild = acl.create_data_buffer(pointer, 48)
    assert acl.op.execute_v2("Add", [one.desc] * 2, [one.buffer, wild], [made.desc], [made.buffer], 0, 0) != 0
    assert acl.op.execute_v2("Add", [one.desc] * 2, [one.buffer] * 2, [made.desc], [wild], 0, 0) != 0
    assert acl.op.infer_shape("Add", [one.desc] * 2, [one.buffer, wild], 1, [made.desc], 0) != 0
    assert (
        acl.blas.hgemm(0, 0, 0, 4, 4, 4, pointer, one.address, -1, one.address, -1, one.address, made.address, -1, 0, 0)
        != 0
    )
