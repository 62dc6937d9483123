"""Seed 000's example as printed between the two marks; the graph around it is ours, as the page shows none.

python program.py IMAGES RESULTS [ENGINE]: a .pt file with a list of CPU tensors (1, 3, H, W) in, one with what came of them out.
"""

import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import transforms

import dataflow as df


# ---- printed ----
# fmt: off
@df.npu_model(optimize_level=1)
class FakeModel1(nn.Module):
    def __init__(self):
        super().__init__()

    # 模拟模型推理
    @df.method()
    def forward(self, input_image):
        return F.interpolate(input_image, size=(256, 256), mode='bilinear')

@df.npu_model(optimize_level=1, input_descs=[df.TensorDesc(dtype=df.DT_FLOAT, shape=[1, 3, 768, 768])])
class FakeModel2(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = 0.5
        self.std = 0.5

    # 模拟模型推理
    @df.method()
    def forward(self, input_image):
        return (input_image - self.mean) / self.std

@df.npu_model()
def preprocess(input_image):
    # 模拟图片裁切
    transform = transforms.Compose([transforms.CenterCrop(512)])
    return transform(input_image)

@df.npu_model()
def postprocess(input_image):
    mean = 0.5
    std = 0.5
    img = input_image * std + mean
    return F.interpolate(img, size=(512, 512), mode='bilinear')
# fmt: on
# ---- until here ----


def main(images: str, results: str, engine: str = "embedded") -> None:
    df.init({"ge.exec.deviceId": "0", "softnpu.flow.engine": engine})
    image = df.FlowData(name="image")
    cropped = preprocess.fnode()(image)
    scaled = FakeModel1.fnode()(cropped)
    normalised = FakeModel2.fnode()(scaled)
    graph = df.FlowGraph([postprocess.fnode()(normalised)])

    given = torch.load(images)
    for one in given:
        assert graph.feed({image: one}, timeout=60000) == 0
    found = []
    for _ in given:
        [result], code = graph.fetch(timeout=60000)
        assert code == 0, code
        found.append(result)
    torch.save(found, results)
    print(json.dumps([{key: row[key] for key in ("node", "pid", "calls", "failures")} for row in graph.statistics()]))
    df.finalize()


if __name__ == "__main__":
    main(*sys.argv[1:])
