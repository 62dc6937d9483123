"""Classify pictures with ResNet-50 on a stream, with callbacks for the results (pyACL guide, 7.5 and 9.5.2.6).

Runs are queued on a stream; after every few of them a callback follows, which a subscribed thread executes as soon as
those runs are done. The guide's sample takes a trained Caffe model; this one is made here, untrained, from ONNX. A slip of
the guide that is mended: `reset_device(model_id)`.
"""

from __future__ import annotations

import argparse
import threading

import models
import numpy as np
from common import Dataset, Model, check, compare, device, work_folder
from resnet50_sync import preprocess, print_top_5

import acl

ACL_CALLBACK_BLOCK = 1
CLASSES = 1000


class Net:
    """The model, a stream, a pool of datasets, and a thread for the callbacks."""

    def __init__(self, context: int, model_path, images: list[np.ndarray], memory_pool: int) -> None:
        print("init resource stage:")
        self.context = context
        self.stream = check(acl.rt.create_stream())
        self.model = Model(model_path)
        self.pool: list[tuple[int, Dataset, Dataset]] = []
        self.results: list[tuple[int, np.ndarray]] = []
        self.stopping = threading.Event()
        print("init resource stage success\ndata interaction from host to device")
        for slot in range(memory_pool):
            number = slot % len(images)
            inputs = self.model.inputs()
            inputs.write(0, images[number])
            self.pool.append((number, inputs, self.model.outputs()))
        print("data interaction from host to device success")

    def _process_callback(self, timeout_ms: int) -> None:
        """What the reporting thread does: run callbacks as they arrive."""
        check(acl.rt.set_context(self.context))
        while not self.stopping.is_set():
            acl.rt.process_report(timeout_ms)  # 507012 when nothing came in time
        print("exit acl.rt.process_report")

    def callback_func(self, done: list[tuple[int, Dataset, Dataset]]) -> None:
        """Fetch the results of finished runs."""
        print("callback func stage:")
        for number, _, outputs in done:
            scores = outputs.read(0, CLASSES)
            self.results.append((number, scores))
            print_top_5(scores)
        print("callback func stage success")

    def forward(self, execute_times: int, callback_interval: int) -> None:
        """Queue all runs, and a callback after each `callback_interval` of them."""
        thread = check(acl.util.start_thread(self._process_callback, 50))
        check(acl.rt.subscribe_report(thread, self.stream))
        print("execute stage:")
        waiting: list[tuple[int, Dataset, Dataset]] = []
        for turn in range(execute_times):
            number, inputs, outputs = self.pool[turn]
            check(acl.mdl.execute_async(self.model.id, inputs.handle, outputs.handle, self.stream))
            waiting.append((number, inputs, outputs))
            if callback_interval and (turn + 1) % callback_interval == 0:
                check(acl.rt.launch_callback(self.callback_func, waiting, ACL_CALLBACK_BLOCK, self.stream))
                waiting = []
        print("execute stage success")
        check(acl.rt.synchronize_stream(self.stream))
        check(acl.rt.unsubscribe_report(thread, self.stream))
        self.stopping.set()
        check(acl.util.stop_thread(thread))
        if waiting:  # no callback was due for these
            self.callback_func(waiting)

    def release(self) -> None:
        """Give everything back."""
        print("release source stage:")
        for _, inputs, outputs in self.pool:
            inputs.destroy()
            outputs.destroy()
        self.model.unload()
        check(acl.rt.destroy_stream(self.stream))
        print("release source stage success")


def main() -> None:
    """Make the model, queue the runs, check every result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--execute_times", type=int, default=4)
    parser.add_argument("--callback_interval", type=int, default=1, help="runs per callback; 0 for none")
    parser.add_argument("--memory_pool", type=int, default=4, help="datasets; at least as many as runs")
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer; 64 is the real ResNet-50")
    args = parser.parse_args()
    if args.memory_pool < args.execute_times:
        parser.error(f"--memory_pool {args.memory_pool} is smaller than --execute_times {args.execute_times}")
    images = [preprocess(models.picture(224, 224, seed)) for seed in (1, 2)]
    with work_folder() as folder:
        onnx_path = models.resnet50(folder / "resnet50.onnx", args.width)
        model_path = models.convert(onnx_path, folder / "resnet50", "--input_shape=actual_input_1:1,3,224,224")
        print(f"Using device id:{args.device}\nexecute_times:{args.execute_times}")
        print(f"callback_interval:{args.callback_interval}\nmem_pools:{args.memory_pool}\nmodel path:{model_path}")
        wanted = [models.reference(onnx_path, actual_input_1=image)[0] for image in images]
        with device(args.device) as context:
            net = Net(context, model_path, images, args.memory_pool)
            net.forward(args.execute_times, args.callback_interval)
            print("run finish!!!")
            net.release()
        assert len(net.results) == args.execute_times
        for number, scores in net.results:
            compare(f"picture {number + 1}", scores, wanted[number])


if __name__ == "__main__":
    main()
