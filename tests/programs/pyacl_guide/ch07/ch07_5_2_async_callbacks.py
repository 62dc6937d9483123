"""Chapter 7.5.2: asynchronous inference with callbacks that fetch the results; a copy stands in for the model."""

import os
import struct
import tempfile

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_CALLBACK_BLOCK = 1
IMG_EXT = [".jpg", ".JPG", ".png", ".PNG", ".bmp", ".BMP", ".jpeg", ".JPEG"]
OUTPUT_SIZE = 4000


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def transfer_pic(image):
    # Stand-in for decoding: 1000 different scores per picture, which the "model" passes on.
    scores = np.random.default_rng(len(image)).permutation(1000).astype(np.float32)
    scores.tofile(image.replace(".jpg", ".bin"))


class Net:
    def __init__(self, device_id, excute_times, callback_interval, memory_pool):
        self.device_id, self.excute_times, self.memory_pool = device_id, excute_times, memory_pool
        self.callback_interval, self.is_callback, self.is_exist = callback_interval, callback_interval > 0, False
        self.dataset_list, self.excute_dataset, self.results = [], [], []
        # 1. Resources.
        check("init", acl.init())
        check("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check("create_stream", ret)
        self.run_mode, ret = acl.rt.get_run_mode()
        check("get_run_mode", ret)
        # manual: acl.mdl.load_from_file(...) and get_desc(...) stand here; need a model, see the inference issue

    def _buffer(self, size):
        ptr, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
        check("malloc", ret)
        return ptr, acl.create_data_buffer(ptr, size)

    # 2.1 One input and one output for each piece of the memory pool.
    def _data_interaction(self, images):
        for idx in range(self.memory_pool):
            data = images[idx % len(images)].tobytes()
            ptr, img_input = self._buffer(len(data))
            ret = acl.rt.memcpy(ptr, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE)
            check("memcpy", ret)
            # manual: datasets around the buffers stand here; they come with the inference issue
            self.dataset_list.append([img_input, self._buffer(OUTPUT_SIZE)[1]])

    # 2.2 Waits for callbacks.
    def _process_callback(self, args_list):
        context, timeout = args_list
        check("set_context", acl.rt.set_context(context))
        while not self.is_exist:
            acl.rt.process_report(timeout)

    # 2.4 Takes the results of the runs since the last callback.
    def callback_func(self, delete_list):
        for _, infer_output in delete_list:
            ptr, size = acl.get_data_buffer_addr(infer_output), acl.get_data_buffer_size(infer_output)
            output_host, ret = acl.rt.malloc_host(size)
            check("malloc_host", ret)
            check("memcpy", acl.rt.memcpy(output_host, size, ptr, size, ACL_MEMCPY_DEVICE_TO_HOST))
            vals = np.array(struct.unpack("1000f", acl.util.ptr_to_bytes(output_host, size))).flatten()
            self.results.append(vals.argsort()[-1:-6:-1].tolist())
            check("free_host", acl.rt.free_host(output_host))

    # 2.5 Runs the "model", and asks for a callback after every callback_interval runs.
    def forward(self):
        self.excute_dataset = []
        for idx in range(self.excute_times):
            img_data, infer_output = self.dataset_list[idx]
            # manual: acl.mdl.execute_async(...) stands here; needs a model, see the inference issue
            ret = acl.rt.memcpy_async(
                acl.get_data_buffer_addr(infer_output),
                OUTPUT_SIZE,
                acl.get_data_buffer_addr(img_data),
                OUTPUT_SIZE,
                ACL_MEMCPY_DEVICE_TO_DEVICE,
                self.stream,
            )
            check("memcpy_async", ret)
            if self.is_callback:
                self.excute_dataset.append([img_data, infer_output])
                self._get_callback(idx)

    def _get_callback(self, idx):
        if (idx + 1) % self.callback_interval == 0:
            ret = acl.rt.launch_callback(self.callback_func, self.excute_dataset, ACL_CALLBACK_BLOCK, self.stream)
            check("launch_callback", ret)
            self.excute_dataset = []

    def run(self, images):
        self._data_interaction(images)
        tid, ret = acl.util.start_thread(self._process_callback, [self.context, 50])
        check("start_thread", ret)
        try:
            # 2.3 This thread runs the callbacks of the stream.
            check("subscribe_report", acl.rt.subscribe_report(tid, self.stream))
            self.forward()
            # 2.6 Wait for everything on the stream.
            check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
            # 2.7 Part from the thread.
            check("unsubscribe_report", acl.rt.unsubscribe_report(tid, self.stream))
        finally:
            self.is_exist = True
            ret = acl.util.stop_thread(tid)
        check("stop_thread", ret)

    def release(self):
        for buffer in sum(self.dataset_list, []):
            check("free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
            check("destroy_data_buffer", acl.destroy_data_buffer(buffer))
        # 3. Stream, context, device.
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        # manual slip: printed `acl.rt.reset_device(self.model_id)`; a device id belongs there
        check("reset_device", acl.rt.reset_device(self.device_id))
        # 4. Stop.
        check("finalize", acl.finalize())


def main():
    data_list = []
    with tempfile.TemporaryDirectory() as images_path:
        for name in ("a.jpg", "bb.jpg", "ccc.jpg"):
            open(os.path.join(images_path, name), "wb").close()
        images_list = [
            os.path.join(images_path, img) for img in os.listdir(images_path) if os.path.splitext(img)[1] in IMG_EXT
        ]
        for image in images_list:
            transfer_pic(image)
            data_list.append(np.fromfile(image.replace(".jpg", ".bin"), dtype=np.byte))
    tops = [data.view(np.float32).argsort()[-1:-6:-1].tolist() for data in data_list]

    # Ten runs from a pool of ten; a callback after each run, after every third run, never.
    for callback_interval, taken in ((1, 10), (3, 9), (0, 0)):
        net = Net(device_id=0, excute_times=10, callback_interval=callback_interval, memory_pool=10)
        net.run(data_list)
        assert net.results == [tops[idx % len(tops)] for idx in range(taken)], "results missing or out of order"
        net.release()


if __name__ == "__main__":
    main()
