"""From a checkpoint to an offline model: ONNX export, `atc`, inference with pyACL, results beside those of torch on npu.

Without a checkpoint it trains one first, on pictures of its own:

    python export_onnx.py                                   # everything, small
    python export_onnx.py model_best.pth.tar --image-size 224 --output resnet50
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path

import image_folder
import imagenet_parts as parts
import numpy as np
import torch
import torch_npu  # noqa: F401  # the device
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))
from common import Model, check, device, work_folder  # noqa: E402
from models import convert  # noqa: E402

import acl  # noqa: E402

SMALL = (
    "--arch",
    "resnet50",
    "--width",
    "8",
    "--image-size",
    "32",
    "-b",
    "16",
    "-j",
    "0",
    "--epochs",
    "1",
    "--seed",
    "1",
)


def trained(folder: Path) -> Path:
    """The checkpoint of a short training."""
    image_folder.make(folder / "pictures")
    program = [sys.executable, str(HERE / "imagenet_npu.py"), str(folder / "pictures"), "--lr", "0.0125", *SMALL]
    subprocess.run(program, cwd=folder, check=True)
    return folder / parts.CHECKPOINT


def load(path: Path) -> nn.Module:
    """The network of a checkpoint, on the CPU and ready for inference. DistributedDataParallel and DataParallel saved it as `module`."""
    checkpoint = torch.load(path, map_location="cpu")
    state = {name.removeprefix("module."): value for name, value in checkpoint["state_dict"].items()}
    model = parts.network(checkpoint["arch"], checkpoint["width"], len(state["fc.bias"]))
    model.load_state_dict(state)
    return model.float().eval()


def export(model: nn.Module, path: Path, size: int) -> Path:
    """ONNX with an open batch, as in the guide."""
    with warnings.catch_warnings():
        # torch points to its newer exporter, which needs a package more
        warnings.filterwarnings("ignore", "You are using the legacy|The feature will be removed", DeprecationWarning)
        torch.onnx.export(
            model,
            torch.randn(1, 3, size, size),
            str(path),
            input_names=["input"],
            output_names=["output"],
            opset_version=11,
            dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
            dynamo=False,
        )
    return path


def infer(om: Path, images: np.ndarray, classes: int) -> np.ndarray:
    """The scores of one batch, by pyACL."""
    with device():
        model = Model(om)
        inputs, outputs = model.inputs(), model.outputs()
        inputs.write(0, images)
        check(acl.mdl.execute(model.id, inputs.handle, outputs.handle))
        scores = outputs.read(0, (len(images), classes))
        inputs.destroy()
        outputs.destroy()
        model.unload()
    return scores


def on_npu(model: nn.Module, images: Tensor) -> Tensor:
    """What the trained network says itself."""
    with torch.no_grad():
        return model.npu()(images.npu()).cpu()


def run(checkpoint: Path, folder: Path, name: str, size: int, batch: int) -> None:
    """All of it, with files `name`.onnx and `name`.om in a folder."""
    model = load(checkpoint)
    onnx_path = export(model, folder / f"{name}.onnx", size)
    om = convert(onnx_path, folder / name, f"--input_shape=input:{batch},3,{size},{size}")
    images = torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(0))
    wanted = on_npu(model, images)
    scores = infer(om, images.numpy(), wanted.shape[1])
    error = float(np.abs(scores - wanted.numpy()).max() / wanted.abs().max())
    print(f"{om.name}: {batch} pictures, largest difference from torch on npu {error:.2g} of the largest score")
    if not error <= 1e-4 or (scores.argmax(1) != wanted.argmax(1).numpy()).any():
        sys.exit("the offline model does not say what the trained one says")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "checkpoint", nargs="?", type=Path, help="of imagenet_main.py or imagenet_npu.py; none trains one"
    )
    parser.add_argument("--image-size", type=int, default=32, help="pixels")
    parser.add_argument("-b", "--batch-size", type=int, default=4)
    parser.add_argument(
        "--output", type=Path, help="where to leave OUTPUT.onnx and OUTPUT.om; without it they are removed"
    )
    args = parser.parse_args()
    with work_folder() as folder:
        checkpoint = args.checkpoint or trained(folder)
        target = args.output.resolve() if args.output else folder / "model"
        run(checkpoint, target.parent, target.name, args.image_size, args.batch_size)


if __name__ == "__main__":
    main()
