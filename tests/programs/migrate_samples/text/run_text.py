# ruff: noqa
# A fine-tuning script in the style of the transformers examples: dataclass arguments, device from a property, bf16 switch.
import argparse
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Optional

import torch as th
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from torch.cuda import Stream

logger = logging.getLogger(__name__)


@dataclass
class Arguments:
    device_name: Literal["cpu", "cuda"] = field(default="cuda", metadata={"help": "cuda:0, cpu, …"})
    epochs: int = 2
    stream: Optional["Stream"] = None

    @property
    def device(self):
        if self.device_name == "cuda" and th.cuda.is_available():
            return th.device("cuda", th.cuda.current_device())
        return th.device("cpu")


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    args = Arguments(parser.parse_args().device)
    th.manual_seed(3)
    model = Classifier().to(args.device)
    generator = th.Generator().manual_seed(2)
    data = TensorDataset(th.randint(0, 20, (16, 8), generator=generator), th.randint(0, 2, (16,), generator=generator))
    loader = DataLoader(data, batch_size=8)
    optimizer = th.optim.AdamW(model.parameters(), lr=1e-3)
    ready = th.cuda.Event() if args.device.type == "cuda" else None
    for epoch in range(args.epochs):
        for tokens, labels in loader:
            tokens, labels = (one.to(args.device) for one in (tokens, labels))
            with th.autocast(device_type="cuda", enabled=False) if ready else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if ready:
            ready.record()
            ready.synchronize()
        print("epoch {} loss {:.5f}".format(epoch, loss.item()))


if __name__ == "__main__":
    main()
