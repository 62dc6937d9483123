"""The manual's image pipeline with torch on npu (`df.npu_model`): crop → model → model → post-process.

All nodes are on one device, so they share a process, and a tensor goes from one to the next without being moved. The first model
is exported to a graph (`optimize_level=2`) with `--level 2`. Needs torch and native/torch (`make setup`).
"""

from __future__ import annotations

import argparse

import torch.nn.functional as F
from frames import CROP, LARGE, MEAN, SMALL, STD, arguments, crop, run
from torch import Tensor, nn

import dataflow as df


class Scale(nn.Module):
    """Stands for the first model."""

    @df.method()
    def forward(self, image: Tensor) -> Tensor:
        return F.interpolate(image, size=(SMALL, SMALL), mode="bilinear")


@df.npu_model(optimize_level=1)
class Normalise(nn.Module):
    """Stands for the second model; its constructor runs in the node."""

    def __init__(self, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    @df.method()
    def forward(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std


@df.npu_model()
def preprocess(image: Tensor) -> Tensor:
    return crop(image)


@df.npu_model()
def postprocess(image: Tensor) -> Tensor:
    return F.interpolate(image * STD + MEAN, size=(LARGE, LARGE), mode="bilinear")


def main() -> None:
    """Build the graph and send frames through it."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--level", type=int, choices=(1, 2), default=1, help="2: the first model becomes a graph")
    args = arguments(__doc__, parser)
    df.init({"ge.exec.deviceId": "0", "softnpu.flow.engine": args.engine})
    shape = df.TensorDesc(dtype=df.DT_FLOAT, shape=[1, 3, CROP, CROP])
    model = df.npu_model(optimize_level=args.level, input_descs=[shape])(Scale)
    image = df.FlowData(name="image")
    scaled = model.fnode()(preprocess.fnode()(image))
    normalised = Normalise.fnode(MEAN, std=STD)(scaled)
    run(df.FlowGraph([postprocess.fnode()(normalised)]), image, args)
    df.finalize()


if __name__ == "__main__":
    main()
