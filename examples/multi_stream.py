"""Two models on two streams of one thread, then two threads with a stream each (pyACL guide, 7.8.4 and 7.8.5)."""

from __future__ import annotations

import models
import numpy as np
from common import Model, check, compare, device, work_folder

import acl

SIDE = 96


class Job:
    """A model with its inputs and outputs."""

    def __init__(self, om, image: np.ndarray) -> None:
        self.model = Model(om)
        self.inputs, self.outputs = self.model.inputs(), self.model.outputs()
        self.inputs.write(0, image)

    def start(self, stream: int) -> None:
        """Queue a run."""
        check(acl.mdl.execute_async(self.model.id, self.inputs.handle, self.outputs.handle, stream))

    def finish(self, shape) -> np.ndarray:
        """The result, and everything given back."""
        result = self.outputs.read(0, shape)
        self.inputs.destroy()
        self.outputs.destroy()
        self.model.unload()
        return result


def one_thread(oms, image: np.ndarray, shapes) -> list[np.ndarray]:
    """7.8.4: two streams, fed by one thread."""
    jobs = [Job(om, image) for om in oms]
    streams = [check(acl.rt.create_stream()) for _ in jobs]
    for job, stream in zip(jobs, streams, strict=True):
        job.start(stream)
    for stream in streams:
        check(acl.rt.synchronize_stream(stream))
        check(acl.rt.destroy_stream(stream))
    return [job.finish(shape) for job, shape in zip(jobs, shapes, strict=True)]


def two_threads(oms, image: np.ndarray, shapes) -> list[np.ndarray]:
    """7.8.5: two threads, each with a context and a stream of its own."""
    results: dict[int, np.ndarray] = {}

    def run_thread(number: int) -> None:
        context = check(acl.rt.create_context(0))
        stream = check(acl.rt.create_stream())
        job = Job(oms[number], image)
        job.start(stream)
        check(acl.rt.synchronize_stream(stream))
        results[number] = job.finish(shapes[number])
        check(acl.rt.destroy_stream(stream))
        check(acl.rt.destroy_context(context))

    threads = [check(acl.util.start_thread(run_thread, number)) for number in range(len(oms))]
    for thread in threads:
        check(acl.util.stop_thread(thread))
    return [results[number] for number in range(len(oms))]


def main() -> None:
    """Run both arrangements, compare each result with onnxruntime."""
    image = (models.picture(SIDE, SIDE, 3).transpose(2, 0, 1)[None] / np.float32(255)).copy()
    shape = [1, 3, SIDE, SIDE]
    with work_folder() as folder:
        originals = [models.classifier(folder / "first.onnx", shape), models.edges(folder / "second.onnx", shape)]
        text = f"--input_shape=data:1,3,{SIDE},{SIDE}"
        oms = [models.convert(original, original.with_suffix(""), text) for original in originals]
        wanted = [models.reference(original, data=image) for original in originals]
        shapes = [array.shape for array in wanted]
        with device():
            results_by_way = {
                "one thread": one_thread(oms, image, shapes),
                "two threads": two_threads(oms, image, shapes),
            }
    for way, results in results_by_way.items():
        for number, (ours, theirs) in enumerate(zip(results, wanted, strict=True)):
            compare(f"{way}, model {number + 1}", ours, theirs)


if __name__ == "__main__":
    main()
