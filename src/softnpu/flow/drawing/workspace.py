"""Directories of UDF projects: what the real layer writes for every Python function, and what `create_func_ws` starts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softnpu.flow import log, settings
from softnpu.flow.plan import Function
from softnpu.flow.state import state
from softnpu.flow.values import register
from softnpu.flow.values.register import pickle_loads

if TYPE_CHECKING:
    from softnpu.flow.functions.work import Work

_CMAKE = """cmake_minimum_required(VERSION 3.14)
project({name} CXX)
# softnpu runs the Python part of this project (src_python). On a machine with CANN, build {name} as a shared library here.
"""
_CPP = """// The native side of {name}. softnpu does not compile it: the functions are in src_python.
// Functions: {functions}
"""
_PYTHON = '''"""{cls}: functions of a DataFlow node."""

import dataflow.flow_func as ff


class {cls}:
    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        ff.logger.info("%s is ready", meta_params.get_name())
        return ff.FLOW_FUNC_SUCCESS
{functions}'''
_METHOD = """
    @ff.proc_wrapper("{ports}")
    def {name}(self, run_context, input_flow_msgs):
        for msg in input_flow_msgs:
            if msg.get_ret_code() != ff.FLOW_FUNC_SUCCESS:
                return msg.get_ret_code()
        # Write the work here: inputs are input_flow_msgs[n].get_tensor().numpy(), results go out with
        # run_context.set_output(index, array).
        return ff.FLOW_FUNC_SUCCESS
"""


def _options() -> dict[str, str]:
    """The options of `init`, if it was called."""
    return state.options or {}


def folder_of(name: str) -> str:
    """The directory of a node's files."""
    return f"{name}_ws"


def snake(name: str) -> str:
    """`FuncAdd` as `func_add`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def write_if_asked(work: Work, folder: str | None) -> None:
    """The workspace of a process point, where SOFTNPU_FLOW_WORKSPACE asks for it."""
    if not settings.load(_options()).workspace:
        return
    target = Path(folder or folder_of(work.name))
    python = _skeleton(target, work.name, work.functions, work.output_num, work.resources)
    data = work.data
    if "hook" in data:  # decorated code
        _write(python / f"{work.name}.pkl", data["object"])
        if data["hook"] is not None:
            _write(python / "_env_hook_func.pkl", data["hook"])
    else:
        source = _source_of(data)
        if source is not None:
            _write(python / f"func_{snake(work.name)}.py", source)
    _write(python / "_msg_type_register.pkl", register.pickle_dumps(register.msg_type_register))
    log.info("workspace of %s written to %s", work.name, target)


def _source_of(data: dict[str, Any]) -> str | None:
    import inspect

    if "source" in data:
        return str(data["source"])
    try:
        return inspect.getsource(inspect.getmodule(pickle_loads(data["object"])) or type)
    except (OSError, TypeError):
        log.warning("the source of a class could not be found, so it is not in the workspace")
        return None


def write_project(folder: Path, cls: str, functions: tuple[Function, ...]) -> list[Path]:
    """A new project with a class that has these functions; gives the files."""
    outputs = len({index for function in functions for index in function.outputs})
    python = _skeleton(folder, cls, functions, outputs, {})
    methods = "".join(
        _METHOD.format(
            name=each.name,
            ports=",".join([*(f"i{index}" for index in each.inputs), *(f"o{index}" for index in each.outputs)]),
        )
        for each in functions
    )
    _write(python / f"func_{snake(cls)}.py", _PYTHON.format(cls=cls, functions=methods))
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _skeleton(
    folder: Path, name: str, functions: tuple[Function, ...], output_num: int, resources: dict[str, int]
) -> Path:
    """CMakeLists.txt, the JSON file and the C++ side; gives the folder of the Python side."""
    stem = f"func_{snake(name)}"
    kinds = {"num_cpus": "cpu", "memory": "memory", "num_npus": "num_npus"}
    content = {
        "func_list": [
            {
                "func_name": each.name,
                "inputs_index": list(each.inputs),
                "outputs_index": list(each.outputs),
                "stream_input": each.stream,
            }
            for each in functions
        ],
        "input_num": sum(len(each.inputs) for each in functions),
        "output_num": output_num,
        "target_bin": f"lib{stem}.so",
        "workspace": str(folder.resolve()),
        "cmakelist_path": "CMakeLists.txt",
        "heavy_load": True,
        "running_resources_info": [{"type": kinds[key], "num": number} for key, number in resources.items()],
    }
    _write(folder / "CMakeLists.txt", _CMAKE.format(name=stem))
    _write(folder / f"{stem}.json", json.dumps(content, indent=4))
    names = ", ".join(each.name for each in functions)
    _write(folder / "src_cpp" / f"{stem}.cpp", _CPP.format(name=stem, functions=names))
    return folder / "src_python"


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
