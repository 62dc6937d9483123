"""Chapter 9.5.2.4: a video of one picture is decoded ten times, each picture is scaled to 224x224 and classified.

A small network stands in for the Caffe ResNet-50. It is converted with AIPP, which turns NV12 into RGB, as the sample says.
"""

import os
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import onnx
import onnxruntime
from ch05_3_6_vdec import Vdec, check_ret, make_video
from onnx import TensorProto, helper, numpy_helper

import acl

SIDE, CLASSES = 224, 1000
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_DEVICE_TO_HOST = 2
MATRIX = ((256, 0, 359), (256, -88, -183), (256, 454, 0))
AIPP = (
    "aipp_op {\n aipp_mode: static\n input_format: YUV420SP_U8\n csc_switch: true\n"
    f" src_image_size_w: {SIDE}\n src_image_size_h: {SIDE}\n"
    + "".join(f" matrix_r{r}c{c}: {MATRIX[r][c]}\n" for r in range(3) for c in range(3))
    + " input_bias_0: 0\n input_bias_1: 128\n input_bias_2: 128\n"
    + "".join(f" var_reci_chn_{c}: 0.00392157\n" for c in range(3))
    + "}\n"
)


def make_model(folder):
    """A convolution, a mean, 1000 classes; returns the paths of the original and of the converted model."""
    random = np.random.default_rng(50)
    weights = {
        "kernel": random.standard_normal((32, 3, 7, 7)) * 0.3,
        "matrix": random.standard_normal((32, CLASSES)),
        "bias": random.standard_normal(CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["data", "kernel"], ["conv1"], "conv1", strides=[4, 4], pads=[3] * 4),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("GlobalAveragePool", ["relu1"], ["pool5"], "pool5"),
        helper.make_node("Flatten", ["pool5"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "matrix", "bias"], ["fc1000"], "fc1000"),
        helper.make_node("Softmax", ["fc1000"], ["prob"], "prob", axis=1),
    ]
    infos = [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
    infos += [helper.make_tensor_value_info("prob", TensorProto.FLOAT, [1, CLASSES])]
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "resnet50", infos[:1], infos[1:], tensors)
    path = os.path.join(folder, "resnet50.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    with open(os.path.join(folder, "aipp.cfg"), "w", encoding="utf-8") as file:
        file.write(AIPP)
    options = ["--model=resnet50.onnx", "--framework=5", "--output=resnet50_aipp", "--soc_version=Ascend310P3"]
    atc = [sys.executable, "-m", "softnpu.cli.atc", *options, "--insert_op_conf=aipp.cfg"]
    done = subprocess.run(atc, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return path, os.path.join(folder, "resnet50_aipp.om")


class Model:
    def __init__(self, model_path):
        print("[Model] class Model init resource stage:")
        self.model_id, ret = acl.mdl.load_from_file(model_path)
        check_ret("load_from_file", ret)
        self.model_desc = acl.mdl.create_desc()
        check_ret("get_desc", acl.mdl.get_desc(self.model_desc, self.model_id))
        self.output_size = acl.mdl.get_output_size_by_index(self.model_desc, 0)
        print("[Model] create model output dataset:")
        self.output_mem, ret = acl.rt.malloc(self.output_size, ACL_MEM_MALLOC_HUGE_FIRST)
        check_ret("malloc", ret)
        self.output_dataset = self._dataset(self.output_mem, self.output_size)
        print("[Model] create model output dataset success")
        print("[Model] class Model init resource stage success")

    def _dataset(self, address, size):
        dataset = acl.mdl.create_dataset()
        _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
        check_ret("add_dataset_buffer", ret)
        return dataset

    def _destroy_dataset(self, dataset):
        for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
            check_ret("destroy_data_buffer", acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)))
        check_ret("destroy_dataset", acl.mdl.destroy_dataset(dataset))

    def run(self, buffer, size):
        print("[Model] create model input dataset:")
        assert size >= acl.mdl.get_input_size_by_index(self.model_desc, 0)
        dataset = self._dataset(buffer, size)
        print("[Model] create model input dataset success")
        print("[Model] execute stage:")
        check_ret("execute", acl.mdl.execute(self.model_id, dataset, self.output_dataset))
        print("[Model] execute stage success")
        self._destroy_dataset(dataset)
        result = bytes(self.output_size)
        ret = acl.rt.memcpy(
            acl.util.bytes_to_ptr(result), len(result), self.output_mem, len(result), ACL_MEMCPY_DEVICE_TO_HOST
        )
        check_ret("memcpy", ret)
        return self._print_result(np.frombuffer(result, np.float32))

    def _print_result(self, vals):
        top_k = vals.argsort()[-1:-6:-1]
        print("\n===== top5 inference results: =====")
        for n in top_k:
            print(f"label:{n} prob: {vals[n]:f}")
        print(f"result: class_label[{top_k[0]}],top1[{vals[top_k[0]]:f}],top5[{vals[top_k].sum():f}]")
        return vals

    def release(self):
        self._destroy_dataset(self.output_dataset)
        check_ret("free", acl.rt.free(self.output_mem))
        check_ret("unload", acl.mdl.unload(self.model_id))
        check_ret("destroy_desc", acl.mdl.destroy_desc(self.model_desc))
        print("[Model] class Model release source success")


class Dvpp:
    def __init__(self, stream):
        print("[Dvpp] class Dvpp init resource stage:")
        self.stream = stream
        self.channel_desc = acl.media.dvpp_create_channel_desc()
        check_ret("dvpp_create_channel", acl.media.dvpp_create_channel(self.channel_desc))
        self.resize_config = acl.media.dvpp_create_resize_config()
        ret = acl.media.dvpp_set_resize_config_interpolation(self.resize_config, 1)
        check_ret("interpolation", ret)
        print("[Dvpp] class Dvpp init resource stage success")

    def _pic_desc(self, buffer, size, width, height):
        desc = acl.media.dvpp_create_pic_desc()
        values = {"data": buffer, "size": size, "format": 1, "width": width, "height": height}
        for name, value in (values | {"width_stride": width, "height_stride": height}).items():
            check_ret(name, getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, value))
        return desc

    def resize(self, image, width, height):
        print("[Dvpp] vpc resize stage:")
        size = SIDE * SIDE * 3 // 2
        buffer, ret = acl.media.dvpp_malloc(size)
        check_ret("dvpp_malloc", ret)
        source = self._pic_desc(image["buffer"], image["size"], width, height)
        target = self._pic_desc(buffer, size, SIDE, SIDE)
        ret = acl.media.dvpp_vpc_resize_async(self.channel_desc, source, target, self.resize_config, self.stream)
        check_ret("dvpp_vpc_resize_async", ret)
        check_ret("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        for desc in (source, target):
            check_ret("dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(desc))
        print("[Dvpp] vpc resize stage success")
        return buffer, size

    def release(self):
        check_ret("dvpp_destroy_resize_config", acl.media.dvpp_destroy_resize_config(self.resize_config))
        check_ret("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.channel_desc))
        check_ret("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.channel_desc))
        print("[Dvpp] class Dvpp release source success")


class Sample:
    def __init__(self, video_path, model_path):
        print("init resource stage:")
        check_ret("init", acl.init())
        check_ret("set_device", acl.rt.set_device(0))
        self.context, ret = acl.rt.create_context(0)
        check_ret("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check_ret("create_stream", ret)
        print("init resource stage success")
        self.model = Model(model_path)
        self.dvpp = Dvpp(self.stream)
        self.vdec = Vdec(1280, 720)
        self.vdec.context = self.context
        self.thread, ret = acl.util.start_thread(self.vdec._thread_func, [100])
        check_ret("start_thread", ret)
        self.vdec.init_resource(self.thread)
        check_ret("vdec_create_channel", acl.media.vdec_create_channel(self.vdec.vdec_channel_desc))
        self.video = np.fromfile(video_path, np.uint8).tobytes()

    def forward(self):
        vdec, size = self.vdec, len(self.video)
        vdec.input_stream_mem, ret = acl.media.dvpp_malloc(size)
        check_ret("dvpp_malloc", ret)
        check_ret("memcpy", acl.rt.memcpy(vdec.input_stream_mem, size, acl.util.bytes_to_ptr(self.video), size, 1))
        vdec.forward(1280 * 720 * 3 // 2, size)
        check_ret("vdec_destroy_channel", acl.media.vdec_destroy_channel(vdec.vdec_channel_desc))
        check_ret("vdec_destroy_channel_desc", acl.media.vdec_destroy_channel_desc(vdec.vdec_channel_desc))
        vdec.running = False
        check_ret("stop_thread", acl.util.stop_thread(self.thread))
        print("[Vdec] vdec finish!!!\n")
        results = []
        for image in vdec.images_buffer:
            buffer, length = self.dvpp.resize(image, 1280, 720)
            check_ret("dvpp_free", acl.media.dvpp_free(image["buffer"]))
            results.append(self.model.run(buffer, length))
            check_ret("dvpp_free", acl.media.dvpp_free(buffer))
        return results

    def release(self):
        print("[Sample] release source stage:")
        self.dvpp.release()
        self.model.release()
        print("[Vdec] release resource:")
        check_ret("vdec_destroy_frame_config", acl.media.vdec_destroy_frame_config(self.vdec.frame_config))
        check_ret("dvpp_free", acl.media.dvpp_free(self.vdec.input_stream_mem))
        print("[Vdec] release resource success")
        check_ret("destroy_stream", acl.rt.destroy_stream(self.stream))
        check_ret("destroy_context", acl.rt.destroy_context(self.context))
        check_ret("reset_device", acl.rt.reset_device(0))
        check_ret("finalize", acl.finalize())
        print("[Sample] release source stage success")


def expected(original, picture):
    """OpenCV scales FFmpeg's picture, the formulas of AIPP make RGB, onnxruntime classifies."""
    whole = np.frombuffer(picture, np.uint8).reshape(1080, 1280)
    luma = cv2.resize(whole[:720], (SIDE, SIDE)).astype(np.int64)
    chroma = cv2.resize(whole[720:].reshape(360, 640, 2), (SIDE // 2, SIDE // 2)).astype(np.int64) - 128
    pixels = np.concatenate([luma[..., None], chroma.repeat(2, 0).repeat(2, 1)], -1) @ np.array(MATRIX).T >> 8
    data = (np.clip(pixels, 0, 255) * np.float32(0.00392157)).transpose(2, 0, 1)[None].astype(np.float32)
    session = onnxruntime.InferenceSession(original, providers=["CPUExecutionProvider"])
    return session.run(None, {"data": data})[0][0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        original, model = make_model(folder)
        path, picture = make_video(1280, 720)
        sample = Sample(path, model)
        os.unlink(path)
        results = sample.forward()
        sample.release()
        wanted = expected(original, picture)
    assert len(results) == 10, f"{len(results)} results"
    for found in results:
        assert found.argmax() == wanted.argmax(), "another class than onnxruntime's"
        assert np.abs(found - wanted).max() < 5e-3, f"difference {np.abs(found - wanted).max()}"


if __name__ == "__main__":
    main()
