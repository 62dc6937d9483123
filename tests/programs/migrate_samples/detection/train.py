#!/usr/bin/env python3
# ruff: noqa
"""A detection trainer in the style of the YOLO family: device helpers, AMP, EMA, models in a package of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.cuda import amp

from models.boxes import Boxes, box_iou
from models.net import Detector
from utils.torch_utils import ModelEMA, de_parallel, select_device, time_sync

ROOT = Path(__file__).resolve().parent


def parse_opt():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="", help="cuda device, i.e. 0 or 0,1,2,3 or cpu")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--imgsz", type=int, default=32)
    return parser.parse_args()


def train(opt, device):
    cuda = device.type != "cpu"
    torch.manual_seed(0)
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    scaler = amp.GradScaler(enabled=False)
    ema = ModelEMA(model)
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(4, 3, opt.imgsz, opt.imgsz, generator=generator)
    targets = torch.rand(4, 4, generator=generator)
    for epoch in range(opt.epochs):
        started = time_sync()
        imgs = images.to(device, non_blocking=True).float()
        with amp.autocast(enabled=False):
            pred = model(imgs)
            loss = (pred - targets.to(device)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        ema.update(de_parallel(model))
        mem = f"{torch.cuda.memory_reserved() / 1e9 if torch.cuda.is_available() else 0:.3g}G"
        assert mem and time_sync() >= started
        print("epoch {} loss {:.5f}".format(epoch, loss.item()))
    boxes = Boxes(torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]]))
    if cuda:
        boxes = boxes.cuda()
        torch.cuda.empty_cache()
    print("iou {:.5f}".format(box_iou(boxes.data, boxes.data)[0, 1].item()), boxes.is_cuda == cuda)


if __name__ == "__main__":
    options = parse_opt()
    train(options, select_device(options.device))
