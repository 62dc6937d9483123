"""The classifier of the media examples: ResNet-50 that takes NV12 pictures of 224x224 (AIPP converts), fed from device memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import acl

sys.path.append(str(Path(__file__).parents[1]))
import models
from common import Model, check
from media_common import Picture

SIDE = 224
MATRIX = ((256, 0, 359), (256, -88, -183), (256, 454, 0))  # YUV to RGB, full range, in 1/256
MEAN, RECIPROCAL = (123.675, 116.28, 103.53), (0.0171248, 0.0175070, 0.0174292)
AIPP = (
    "aipp_op {\n  aipp_mode: static\n  input_format: YUV420SP_U8\n  csc_switch: true\n"
    f"  src_image_size_w: {SIDE}\n  src_image_size_h: {SIDE}\n"
    + "".join(f"  matrix_r{r}c{c}: {MATRIX[r][c]}\n" for r in range(3) for c in range(3))
    + "  input_bias_0: 0\n  input_bias_1: 128\n  input_bias_2: 128\n"
    + "".join(f"  min_chn_{c}: {MEAN[c]}\n  var_reci_chn_{c}: {RECIPROCAL[c]}\n" for c in range(3))
    + "}\n"
)


def make(folder: Path, width: int) -> tuple[Path, Path]:
    """The original model and the converted one."""
    (folder / "aipp.cfg").write_text(AIPP, encoding="utf-8")
    original = models.resnet50(folder / "resnet50.onnx", width)
    shape = f"--input_shape=actual_input_1:1,3,{SIDE},{SIDE}"
    return original, models.convert(original, folder / "resnet50_aipp", shape, "--insert_op_conf=aipp.cfg")


class Classifier:
    """The model; its input buffer is the picture itself."""

    def __init__(self, path: Path) -> None:
        self.model = Model(path)
        self.outputs = self.model.outputs()

    def run(self, picture: Picture) -> np.ndarray:
        """The scores of an NV12 picture in device memory."""
        inputs = acl.mdl.create_dataset()
        data = acl.create_data_buffer(picture.address, picture.size)
        check(acl.mdl.add_dataset_buffer(inputs, data))
        check(acl.mdl.execute(self.model.id, inputs, self.outputs.handle))
        check(acl.destroy_data_buffer(data))
        check(acl.mdl.destroy_dataset(inputs))
        return self.outputs.read(0, (1, 1000))

    def release(self) -> None:
        """Give everything back."""
        self.outputs.destroy()
        self.model.unload()


def expected_input(nv12: np.ndarray) -> np.ndarray:
    """What AIPP makes of a picture, by the formulas of the manual."""
    luma = nv12[:SIDE].astype(np.int64)
    chroma = nv12[SIDE:].reshape(SIDE // 2, SIDE // 2, 2).astype(np.int64).repeat(2, 0).repeat(2, 1) - 128
    pixels = np.clip((np.concatenate([luma[..., None], chroma], -1) @ np.array(MATRIX).T) >> 8, 0, 255)
    scaled = (pixels - np.float32(np.float16(MEAN))) * np.float32(np.float16(RECIPROCAL))  # kept as fp16 in the model
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


def print_top_5(scores: np.ndarray) -> None:
    """The five best classes, in the words of the guide's sample."""
    shares = np.exp(scores - scores.max()).ravel()
    shares /= shares.sum()
    print("\n===== top5 inference results: =====")
    for label in shares.argsort()[-1:-6:-1]:
        print(f"label:{label} prob: {shares[label]:.6f}")
