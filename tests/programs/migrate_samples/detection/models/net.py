from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 4, 3, 2, 1))

    def forward(self, x):
        return self.body(x).mean((2, 3))
