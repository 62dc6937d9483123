"""torchvision's name for a small residual network."""

from torch import nn


class _Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return nn.functional.relu(self.bn(self.conv(x)) + x)


def resnet50(pretrained=False):
    assert not pretrained
    return nn.Sequential(
        nn.Conv2d(3, 4, 7, stride=2, padding=3), _Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
