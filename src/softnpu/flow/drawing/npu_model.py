"""`npu_model`: torch functions and modules as nodes whose tensors stay on the device."""

from __future__ import annotations

import functools
import inspect
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

from softnpu.flow import log
from softnpu.flow.bodies.function import construct
from softnpu.flow.drawing import decorate
from softnpu.flow.drawing.nodes import FlowNode, add_methods
from softnpu.flow.drawing.points import Framework, GraphProcessPoint
from softnpu.flow.errors import DfException
from softnpu.flow.models.source import ModelSource
from softnpu.flow.plan import TORCH_LOADER, Function
from softnpu.flow.values import dtypes, torch_door
from softnpu.flow.values.tensor import TensorDesc

_CLASS_KEYS = ("optimize_level", "input_descs")
_KEYS = (*_CLASS_KEYS, "num_returns", "resources", "env_hook_func", "visible_device_enable")
_OPSET = 17
_SCHEDULED = "_npu_sched_model"
EXPORTED = "export.air"


def npu_model(*args: Any, **options: Any) -> Any:
    """Run torch code on npu tensors: `@df.npu_model()` over a function or a class derived from `torch.nn.Module`.

    Level 2 (classes only, with `input_descs`) exports the module once and runs it as a model.
    """
    if len(args) > 1:
        raise TypeError("npu_model decorates one function or class")
    torch_door.torch_npu()
    torch_door.register()
    decorate.check_options("npu_model", options, _KEYS)
    return _decorated(args[0], options) if args else functools.partial(_decorated, options=options)


def _decorated(target: Any, options: dict[str, Any]) -> Any:
    if not inspect.isclass(target):
        wrong = [key for key in _CLASS_KEYS if key in options]
        if wrong:
            raise TypeError(f"npu_model: {', '.join(wrong)} is for classes; {_name(target)} is none")
        _refuse_stream(target, {})
    decorated = decorate.decorate(target, decorate.Options(options, loader=TORCH_LOADER, on_device=True))
    if inspect.isclass(target):
        for function, choice in decorate.methods(decorated, decorated._df_options):
            _refuse_stream(getattr(target, function.name), {"stream_input": function.stream, "choice_output": choice})
        decorated._df_level_1 = decorated.fnode.__func__
        decorated.fnode = decorated._fnode = classmethod(_fnode)
    else:
        decorated.fnode = functools.wraps(decorated.fnode)(functools.partial(_function_node, decorated.fnode))
    return decorated


def _name(target: Any) -> str:
    return getattr(target, "__qualname__", repr(target))


def _refuse_stream(function: Any, marks: dict[str, Any]) -> None:
    """One group of inputs gives one group of outputs."""
    wrong = [key for key, value in marks.items() if value]
    if wrong:
        raise TypeError(f"npu_model does not stream: {_name(function)} has {', '.join(wrong)}")
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"npu_model does not stream: {_name(function)} yields; return the tensors instead")


def _function_node(make: Any, *args: Any, **kwargs: Any) -> FlowNode:
    node: FlowNode = make(*args, **kwargs)
    node.set_attr(_SCHEDULED, 1)
    return node


# ---- classes -------------------------------------------------------------------------------------------------------------


def _fnode(cls: Any, *args: Any, **kwargs: Any) -> FlowNode:
    """A node; the arguments go to the constructor: in the node's process, or here when the module is exported."""
    options = cls._df_options.values
    level = options.get("optimize_level", 1)
    if type(level) is not int or level not in (1, 2):
        raise TypeError(f"npu_model: optimize_level of {cls.__name__} is 1 or 2, not {level!r}")
    if level == 2:
        return _exported_node(cls, _descriptions(cls, options.get("input_descs")), args, kwargs)
    node: FlowNode = cls._df_level_1(cls, *args, **kwargs)
    node.set_attr(_SCHEDULED, 1)
    return node


def _descriptions(cls: Any, descs: Any) -> list[TensorDesc]:
    if not descs:
        raise TypeError(f"npu_model: {cls.__name__} with optimize_level=2 needs input_descs, a list of df.TensorDesc")
    if not isinstance(descs, list | tuple) or not all(isinstance(desc, TensorDesc) for desc in descs):
        raise TypeError(f"npu_model: input_descs of {cls.__name__} is a list of df.TensorDesc, not {descs!r}")
    return list(descs)


def _exported_node(cls: Any, descs: list[TensorDesc], args: tuple[Any, ...], kwargs: dict[str, Any]) -> FlowNode:
    """Level 2: the module as a model of our own; it is made ready here, so that mistakes show here."""
    function = _forward(cls, len(descs))
    hook = cls._df_options.values.get("env_hook_func")
    if hook is not None:
        hook()
    if cls._df_options.resources:
        log.info("npu_model: resources of %s have no effect at level 2, where it is a model", cls.__name__)
    module = construct(cls, args, kwargs)
    if not isinstance(module, torch_door.torch().nn.Module):
        raise TypeError(f"npu_model: {cls.__name__} must derive from torch.nn.Module to be exported (optimize_level=2)")
    node = FlowNode(len(descs), len(function.outputs), name=f"{cls.__name__}_fnode")
    folder = Path(tempfile.mkdtemp(prefix="softnpu-export-"))
    try:
        file = compiled(module, descs, folder, len(function.outputs), node.name)
        point = GraphProcessPoint(Framework.MINDSPORE, str(file), name=f"{node.name}_pp")
        weakref.finalize(point, shutil.rmtree, folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    node.add_process_point(point)
    node.set_attr(_SCHEDULED, 1)
    add_methods(node, (function,))
    return node


def _forward(cls: Any, inputs: int) -> Function:
    """The method that is exported, which is `forward`."""
    marked = [function for function, _ in decorate.methods(cls, cls._df_options)]
    if [function.name for function in marked] != ["forward"]:
        names = ", ".join(function.name for function in marked) or "none"
        raise TypeError(
            f"npu_model: level 2 exports forward; mark only it with @df.method(), in {cls.__name__} are: {names}"
        )
    if len(marked[0].inputs) != inputs:
        raise TypeError(
            f"npu_model: {cls.__name__}.forward has {len(marked[0].inputs)} inputs, input_descs describes {inputs}"
        )
    return marked[0]


# ---- exporting -----------------------------------------------------------------------------------------------------------


def compiled(module: Any, descs: list[TensorDesc], folder: Path, outputs: int, name: str) -> Path:
    """The module as an offline model in `folder`."""
    onnx = export(module, descs, folder / "export.onnx")
    source = ModelSource(Framework.ONNX.value, str(onnx), name, len(descs))
    from softnpu.flow.models import build  # the compiler: 30 ms that `import dataflow` need not take

    spec = build.embedded(build.build(source))
    if len(spec.data["outputs"]) != outputs:
        raise DfException(
            f"{type(module).__name__}.forward gives {len(spec.data['outputs'])} tensors, {outputs} outputs were declared; "
            "set num_returns in df.method or annotate the result."
        )
    onnx.unlink()
    om = folder / EXPORTED
    om.write_bytes(spec.data["om"])
    return om


def export(module: Any, descs: list[TensorDesc], path: Path) -> Path:
    """ONNX of a module in evaluation mode; a negative dimension is open and traced with 1."""
    torch = torch_door.torch()
    names = [f"input_{index}" for index in range(len(descs))]
    inputs = tuple(_example(desc) for desc in descs)
    axes = {
        name: {axis: f"{name}_{axis}" for axis, dim in enumerate(desc._shape) if dim < 0}
        for name, desc in zip(names, descs, strict=True)
    }
    module.to("cpu").eval()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # torch points to its newer exporter, which needs a package more, and warns of what tracing fixes
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                inputs,
                str(path),
                input_names=names,
                opset_version=_OPSET,
                dynamic_axes={name: open_dims for name, open_dims in axes.items() if open_dims},
                dynamo=False,
            )
    except Exception as problem:
        raise DfException(
            f"{type(module).__name__} cannot be exported as a graph: {type(problem).__name__}: {problem}. "
            "Use optimize_level=1, or change what torch.onnx.export refuses."
        ) from problem
    return path


def _example(desc: TensorDesc) -> Any:
    torch = torch_door.torch()
    name = "bfloat16" if desc._dtype is dtypes.DT_BF16 else _numpy_name(desc)
    shape = [1 if dim < 0 else dim for dim in desc._shape]
    return torch.zeros(shape, dtype=getattr(torch, name))


def _numpy_name(desc: TensorDesc) -> str:
    import numpy as np

    name = str(np.dtype(dtypes.numpy_type(desc._dtype)).name)
    if not hasattr(torch_door.torch(), name):
        raise TypeError(f"npu_model: torch has no type for {desc._dtype} in {desc!r}")
    return name
