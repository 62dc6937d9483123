import torch


class Boxes:
    """Boxes that move like a tensor."""

    def __init__(self, data):
        self.data = data

    def cuda(self):
        return Boxes(self.data.cuda())

    @property
    def is_cuda(self):
        return self.data.is_cuda


def box_iou(a, b):
    area = ((a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]))[:, None] + ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]))[None]
    inter = (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(0).prod(2)
    return inter / (area - inter)
