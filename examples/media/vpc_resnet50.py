"""Decode, scale and classify JPEG pictures (pyACL guide, 9.5.2.2): JPEGD, VPC, AIPP, ResNet-50, all in device memory.

The guide's sample takes photographs of dogs and a trained Caffe model; pictures and model are made here. The steps and the
lines on the screen are the guide's. The scaled picture is compared with OpenCV, the scores with onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import models
from common import compare, device, work_folder
from media_common import Dvpp
from resnet import SIDE, Classifier, expected_input, make, print_top_5


def main() -> None:
    """Two pictures, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer; 64 is the real ResNet-50")
    args = parser.parse_args()
    with work_folder() as folder:
        original, path = make(folder, args.width)
        with device():
            dvpp, classifier = Dvpp(), Classifier(path)
            for seed in (1, 2):
                _, jpeg = cv2.imencode(".jpg", models.picture(1024, 682, seed)[..., ::-1])
                print(
                    f"[Sample] width:1024 height:682\n[Sample] image: drawn with seed {seed}\n[Dvpp] vpc decode stage:"
                )
                decoded = dvpp.decode(jpeg.tobytes())
                print("[Dvpp] vpc decode stage success\n[Dvpp] vpc resize stage:")
                small = dvpp.resize(decoded, SIDE, SIDE)
                print("[Dvpp] vpc resize stage success\n[Model] execute stage:")
                scores = classifier.run(small)
                print("[Model] execute stage success")
                print_top_5(scores)
                check_picture(decoded.rows(), small.rows())
                compare("scores", scores, models.reference(original, actual_input_1=expected_input(small.rows())))
                decoded.destroy()
                small.destroy()
            classifier.release()
            dvpp.release()
    print("[Sample] class Sample release source success")


def check_picture(decoded: np.ndarray, small: np.ndarray) -> None:
    """The scaled picture is what OpenCV makes of the planes."""
    luma = cv2.resize(decoded[:682], (SIDE, SIDE))
    chroma = cv2.resize(decoded[682:].reshape(341, 512, 2), (SIDE // 2, SIDE // 2))
    difference = np.abs(small.astype(int) - np.concatenate([luma, chroma.reshape(SIDE // 2, SIDE)])).max()
    print(f"the scaled picture differs from OpenCV's by {difference} at most")
    if difference > 1:
        sys.exit("that is too much")


if __name__ == "__main__":
    main()
