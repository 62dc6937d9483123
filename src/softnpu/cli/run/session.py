"""What `softnpu run` does: load a model, feed it, take the time of each stage, write and compare the results."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.cli.run import inputs as inputs
from softnpu.cli.run.compare import Difference, Original
from softnpu.cli.run.inputs import Array, InputSet, Shape, Wanted
from softnpu.cli.run.options import Refusal, RunOptions
from softnpu.executor.model import SHAPE_INPUT, Given, Model
from softnpu.executor.models import table
from softnpu.graph.aipp import PARAMETERS
from softnpu.graph.om import ModelInfo, Om
from softnpu.runtime.process import Process, process

TO_DEVICE, TO_HOST = 1, 2
_OPTION = {"batch": "--dymBatch", "hw": "--dymHW", "dims": "--dymDims"}


@dataclass
class Result:
    """Everything that a run found out."""

    info: ModelInfo
    name: str
    soc: str
    chip: str
    engine: str
    load_ms: float
    gear: list[int] | None = None
    random: bool = False
    input_shapes: list[Shape] = field(default_factory=list)
    output_shapes: list[Shape] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: {"H2D": [], "Inference": [], "D2H": []})
    written: list[Path] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    batch: int = 1

    @property
    def equal(self) -> bool:
        """Whether every compared output is within the tolerance."""
        return all(difference.equal for difference in self.differences)

    @property
    def throughput(self) -> float:
        """Samples per second, by the mean time of inference."""
        return 1000 * self.batch / (sum(self.times["Inference"]) / len(self.times["Inference"]))


def run(options: RunOptions) -> Result:
    """Run a model as the options say."""
    source = Om.open(options.model)
    original = Original(options.original) if options.original is not None else None
    owner = process()
    owner.start(None)
    try:
        owner.registry.set_device(options.device)
        begin = time.perf_counter()
        number = table(owner).load(owner, source)
        load_ms = (time.perf_counter() - begin) * 1000
        model = table(owner).get(number)
        try:
            session = _Session(owner, model, options, original)
            try:
                return session.run(load_ms)
            finally:
                session.release()
        finally:
            table(owner).unload(number)
    finally:
        owner.stop()


class _Session:
    """A loaded model with its buffers."""

    def __init__(self, owner: Process, model: Model, options: RunOptions, original: Original | None) -> None:
        self.memory = owner.memory
        self.device = owner.device(options.device)
        self.model, self.info, self.options, self.original = model, model.info, options, original
        added = [tensor.name for tensor in self.info.inputs if tensor.name.startswith(PARAMETERS)]
        if added:
            raise Refusal(
                "the model takes its AIPP settings at run time", "use a pyACL program with acl.mdl.set_input_aipp"
            )
        self.fed = [index for index, tensor in enumerate(self.info.inputs) if tensor.name != SHAPE_INPUT]
        self.gear = find_gear(self.info, options)
        self.shapes = self._shapes()
        self.feeds: dict[int, DataBuffer] = {}
        self.asked = self._output_sizes()
        self.outputs = [DataBuffer(self._allocate(size), size) for size in self.asked]

    def _shapes(self) -> list[Shape | None]:
        """The shape of every input in this run, None where the data tell it."""
        if self.gear is not None:
            return list(self.model.gear_shapes(self.gear))
        said = dict(self.options.shapes or {})
        shapes: list[Shape | None] = []
        for tensor in self.info.inputs:
            dims = said.pop(tensor.name, None)
            is_open = any(dim < 0 for dim in tensor.dims)
            if dims is not None and not tensor.ranges and dims != tensor.dims:
                raise Refusal(
                    f"input {tensor.name} has the fixed shape {tensor.dims}, not {dims}", "leave --dymShape out"
                )
            memory = tensor.dims_v2 or tensor.dims  # with AIPP the bytes of a picture, which its dims do not tell
            shapes.append(tuple(dims) if dims is not None else None if is_open else tuple(memory))
        if said:
            known = ", ".join(tensor.name for tensor in self.info.inputs)
            raise Refusal(f"the model has no input named {next(iter(said))!r}", f"it has: {known}")
        return shapes

    def _output_sizes(self) -> list[int]:
        """Bytes for each output; 0 leaves them to the run."""
        sizes = [tensor.size for tensor in self.info.outputs]
        said = self.options.output_sizes
        if said is not None:
            if len(said) != len(sizes):
                raise Refusal(
                    f"--outputSize names {len(said)} sizes, the model has {len(sizes)} outputs", "name one for each"
                )
            sizes = [max(size, asked) for size, asked in zip(sizes, said, strict=True)]
        return sizes

    def _allocate(self, size: int) -> int:
        """Device memory; none for 0, which leaves it to the run."""
        return self.memory.allocate(self.device, size, 0) if size else 0

    def release(self) -> None:
        """Give the buffers back."""
        for buffer in (*self.feeds.values(), *self.outputs):
            if buffer.address:
                self.memory.free(buffer.address, ("device",), "device")

    # ---- the run -----------------------------------------------------------------------------------------------------

    def run(self, load_ms: float) -> Result:
        head = self.model.source.head()
        result = Result(
            info=self.info,
            name=self.model.name,
            soc=str(head.get("soc_version", "")),
            chip=self.device.soc.name,
            engine=self.model.engine.name,
            load_ms=load_ms,
            gear=self.info.gears[self.gear] if self.gear is not None else None,
            random=not self.options.inputs,
        )
        names = [self.info.inputs[index].name for index in self.fed]
        sets = inputs.find_sets(self.options.inputs, names) if self.options.inputs else [InputSet("", [])]
        folder = self._folder()
        generator = np.random.default_rng(self.options.seed)
        with _progress(len(sets) * (self.options.warmup + self.options.loop)) as step:
            for files in sets:
                arrays = self._arrays(files, generator)
                outputs = self._measure(arrays, result, step)
                if folder is not None:
                    result.written += self._write(folder, files, outputs, len(sets) > 1)
                if self.original is not None:
                    result.differences = self.original.compare(
                        arrays, self.info, self.fed, outputs, self.options.tolerance, result.differences
                    )
        return result

    def _folder(self) -> Path | None:
        folder = self.options.output
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise Refusal(
                    f"the folder {folder} cannot be made: {problem.strerror}", "choose another --output"
                ) from problem
        return folder

    def _arrays(self, files: InputSet, generator: np.random.Generator) -> list[Array]:
        arrays = []
        for position, index in enumerate(self.fed):
            tensor = self.info.inputs[index]
            wanted = Wanted(tensor.name, tensor.dtype, self.shapes[index])
            arrays.append(inputs.read(files.files[position], wanted) if files.files else inputs.make(wanted, generator))
        return arrays

    def _measure(self, arrays: list[Array], result: Result, step: Callable[[], None]) -> list[Array]:
        fed = self._given(arrays)
        self._forget_open_outputs()
        result.input_shapes = [array.shape for array in arrays]
        if not result.times["Inference"]:
            result.batch = self.options.batch_size or (arrays[0].shape[0] if arrays and arrays[0].ndim else 1)
        outputs: list[Array] = []
        for turn in range(self.options.warmup + self.options.loop):
            clock = [time.perf_counter()]
            for index, array in zip(self.fed, arrays, strict=True):
                if array.nbytes:
                    self.memory.copy(fed.buffers[index].address, array.ctypes.data, array.nbytes, TO_DEVICE)
            clock.append(time.perf_counter())
            ready = self.model.prepare(fed, Given(self.outputs, {}))
            shapes = self.model.run(ready)
            clock.append(time.perf_counter())
            outputs = self._fetch(shapes)
            clock.append(time.perf_counter())
            if turn >= self.options.warmup:
                for stage, begin, end in zip(result.times, clock, clock[1:], strict=False):
                    result.times[stage].append((end - begin) * 1000)
            step()
        result.output_shapes = [array.shape for array in outputs]
        return outputs

    def _given(self, arrays: list[Array]) -> Given:
        """Device buffers for the inputs of one set; they are kept while sets have the same sizes."""
        buffers, descs = [], {}
        sizes = dict(zip(self.fed, arrays, strict=True))
        for index, tensor in enumerate(self.info.inputs):
            array = sizes.get(index)
            need = array.nbytes if array is not None else tensor.size
            known = self.feeds.get(index)
            if known is None or known.size < need:
                known = self.feeds[index] = DataBuffer(self._allocate(max(need, 1)), max(need, 1))
            buffers.append(known)
            if array is not None and self.gear is None and self.model.ranged:
                descs[index] = TensorDesc(tensor.dtype, list(array.shape), tensor.format, tensor.name)
        return Given(buffers, descs, self.gear)

    def _forget_open_outputs(self) -> None:
        """Let the next run allocate outputs of open shape anew: another set of inputs may have larger ones."""
        for index, buffer in enumerate(self.outputs):
            if buffer.address and not self.asked[index]:
                self.memory.free(buffer.address, ("device",), "device")
                buffer.address = buffer.size = 0

    def _fetch(self, shapes: list[Shape]) -> list[Array]:
        arrays = []
        for tensor, shape, buffer in zip(self.info.outputs, shapes, self.outputs, strict=True):
            array = np.empty(shape, Wanted(tensor.name, tensor.dtype, shape).numpy)
            if array.nbytes:
                self.memory.copy(array.ctypes.data, buffer.address, array.nbytes, TO_HOST)
            arrays.append(array)
        return arrays

    def _write(self, folder: Path, files: InputSet, outputs: list[Array], several: bool) -> list[Path]:
        stem = files.label if several else self.options.model.stem
        paths = []
        for index, array in enumerate(outputs):
            path = folder / f"{stem}_output_{index}.{self.options.outfmt}"
            try:
                _save(path, array)
            except OSError as problem:
                raise Refusal(f"{path} cannot be written: {problem.strerror}", "choose another --output") from problem
            paths.append(path)
        return paths


def find_gear(info: ModelInfo, options: RunOptions) -> int | None:
    """The gear of a run: what the options say, else the largest; None for a model without gears."""
    asked = {"batch": options.batch, "hw": options.hw, "dims": options.dims}
    for kind, value in asked.items():
        if value is not None and info.gear_kind != kind:
            has = f"it takes {_OPTION[info.gear_kind]}" if info.gear_kind else "its shapes are not chosen from gears"
            raise Refusal(f"the model was not built for {_OPTION[kind]}", has)
    if not info.gears:
        return None
    if options.shapes is not None:
        raise Refusal("the model has gears and no shape range", f"use {_OPTION[info.gear_kind]}")
    wanted = asked[info.gear_kind]
    if wanted is None:
        return info.run.largest_gear
    if options.dims is not None:
        return _dims_gear(info, options.dims)
    values = [wanted] if isinstance(wanted, int) else wanted
    if values not in info.gears:
        raise Refusal(f"{values} is none of the gears {info.gears}", f"give {_OPTION[info.gear_kind]} one of them")
    return info.gears.index(values)


def _dims_gear(info: ModelInfo, dims: dict[str, list[int]]) -> int:
    names = [tensor.name for tensor in info.inputs if tensor.name != SHAPE_INPUT]
    unknown = [name for name in dims if name not in names]
    if unknown:
        raise Refusal(f"the model has no input named {unknown[0]!r}", f"it has: {', '.join(names)}")
    fixed = {tensor.name: tensor.dims for tensor in info.inputs}
    flat = [dim for name in names for dim in dims.get(name, fixed[name])]
    if flat not in info.gear_inputs:
        raise Refusal(f"the dims {flat} are none of the gears {info.gear_inputs}", "give --dymDims one of them")
    return info.gear_inputs.index(flat)


def _save(path: Path, array: Array) -> None:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".bin":
        array.tofile(path)
    else:
        flat = array.reshape(-1, array.shape[-1] if array.ndim and array.size else 1)
        np.savetxt(path, flat, fmt="%.9g" if array.dtype.kind in "fc" else "%d")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error where that is a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("running", total=total)
        yield lambda: bar.advance(task)


def quantile(sorted_values: list[float], share: float) -> float:
    """A quantile by linear interpolation, as NumPy's default."""
    position = share * (len(sorted_values) - 1)
    low = math.floor(position)
    high = min(low + 1, len(sorted_values) - 1)
    return sorted_values[low] + (sorted_values[high] - sorted_values[low]) * (position - low)
