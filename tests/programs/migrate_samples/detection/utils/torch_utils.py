import os
import time
from copy import deepcopy

import torch
import torch.nn as nn


def select_device(device=""):
    """device = 'cpu' or '0' or '0,1,2,3'"""
    cpu = device == "cpu"
    cuda = not cpu and torch.cuda.is_available()
    if cuda:
        for i, d in enumerate(device.split(",") if device else "0"):
            name = torch.cuda.get_device_name(i)
            assert name, f"CUDA:{d} has no name"
    return torch.device("cuda:0" if cuda else "cpu")


def time_sync():
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.time()


def is_parallel(model):
    return type(model) in (nn.parallel.DataParallel, nn.parallel.DistributedDataParallel)


def de_parallel(model):
    return model.module if is_parallel(model) else model


def kernels():
    return os.path.join(os.path.dirname(__file__), "..", "csrc", "cuda")


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.ema, self.decay = deepcopy(model).eval(), decay

    def update(self, model):
        with torch.no_grad():
            for mine, new in zip(self.ema.state_dict().values(), model.state_dict().values()):
                mine.mul_(self.decay).add_(new.detach(), alpha=1 - self.decay)
