"""Classify pictures with ResNet-50, one after the other (pyACL guide, 9.5.2.5).

The guide's sample takes a trained Caffe model; this one is made here, untrained, from ONNX. The steps, the calls and the
lines on the screen are the guide's. Each result is compared with onnxruntime.
"""

from __future__ import annotations

import argparse

import models
import numpy as np
from common import (
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    check,
    compare,
    work_folder,
)

import acl


class Net:
    """The model on a device, with one buffer per input and output."""

    def __init__(self, device_id: int, model_path: str) -> None:
        self.device_id = device_id
        print("init resource stage:")
        check(acl.init())
        check(acl.rt.set_device(device_id))
        self.context = check(acl.rt.create_context(device_id))
        self.model_id = check(acl.mdl.load_from_file(model_path))
        print(f"model_id:{self.model_id}")
        self.model_desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(self.model_desc, self.model_id))
        count, size = acl.mdl.get_num_inputs, acl.mdl.get_input_size_by_index
        self.input_dataset = self._dataset(count(self.model_desc), size)
        count, size = acl.mdl.get_num_outputs, acl.mdl.get_output_size_by_index
        self.output_dataset = self._dataset(count(self.model_desc), size)
        print("init resource success")

    def _dataset(self, count: int, size_of) -> int:
        dataset = acl.mdl.create_dataset()
        for index in range(count):
            size = size_of(self.model_desc, index)
            buffer = acl.create_data_buffer(check(acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)), size)
            check(acl.mdl.add_dataset_buffer(dataset, buffer))
        return dataset

    def run(self, image: np.ndarray) -> np.ndarray:
        """The scores of a picture."""
        print("data interaction from host to device")
        buffer = acl.mdl.get_dataset_buffer(self.input_dataset, 0)
        pointer, image = acl.util.numpy_contiguous_to_ptr(image)
        address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)
        check(acl.rt.memcpy(address, size, pointer, image.nbytes, ACL_MEMCPY_HOST_TO_DEVICE))
        print("data interaction from host to device success\nexecute stage:")
        check(acl.mdl.execute(self.model_id, self.input_dataset, self.output_dataset))
        print("execute stage success\ndata interaction from device to host")
        buffer = acl.mdl.get_dataset_buffer(self.output_dataset, 0)
        address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)
        host = check(acl.rt.malloc_host(size))
        check(acl.rt.memcpy(host, size, address, size, ACL_MEMCPY_DEVICE_TO_HOST))
        scores = np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float32)
        check(acl.rt.free_host(host))
        print("data interaction from device to host success")
        return scores

    def release(self) -> None:
        """Give everything back, in the reverse order."""
        print("Releasing resources stage:")
        for dataset in (self.input_dataset, self.output_dataset):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                buffer = acl.mdl.get_dataset_buffer(dataset, index)
                check(acl.rt.free(acl.get_data_buffer_addr(buffer)))
                check(acl.destroy_data_buffer(buffer))
            check(acl.mdl.destroy_dataset(dataset))
        check(acl.mdl.unload(self.model_id))
        check(acl.mdl.destroy_desc(self.model_desc))
        check(acl.rt.destroy_context(self.context))
        check(acl.rt.reset_device(self.device_id))
        check(acl.finalize())
        print("Resources released successfully.")


def preprocess(image: np.ndarray) -> np.ndarray:
    """RGB bytes as the model's input: normalised, channels first."""
    scaled = (image - np.float32([123.675, 116.28, 103.53])) / np.float32([58.395, 57.12, 57.375])
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


def print_top_5(scores: np.ndarray) -> None:
    """The five best classes, with their confidence."""
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    print("===== top5 inference results: =====")
    for label in shares.argsort()[-1:-6:-1]:
        print(f"[{label}]: {shares[label]:.6f}")


def main() -> None:
    """Make the model, classify two pictures, check the scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer; 64 is the real ResNet-50")
    args = parser.parse_args()
    with work_folder() as folder:
        onnx_path = models.resnet50(folder / "resnet50.onnx", args.width)
        model_path = models.convert(onnx_path, folder / "resnet50", "--input_shape=actual_input_1:1,3,224,224")
        print(f"Using device id:{args.device}\nmodel path:{model_path}")
        net = Net(args.device, str(model_path))
        for seed in (1, 2):
            print(f"images: drawn with seed {seed}")
            image = preprocess(models.picture(224, 224, seed))
            scores = net.run(image)
            print_top_5(scores)
            compare("scores", scores, models.reference(onnx_path, actual_input_1=image)[0])
        print("****run finish****")
        net.release()


if __name__ == "__main__":
    main()
