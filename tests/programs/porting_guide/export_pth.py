"""From a .pth file to ONNX (line 2642). torchvision is a stand-in."""

import torch
import torch.onnx
import torchvision.models as models

device = torch.device("cpu")


def convert():
    model = models.resnet50(pretrained=False)
    resnet50_model = torch.load("resnet50.pth", map_location="cpu")
    model.load_state_dict(resnet50_model)

    batch_size = 1
    input_shape = (3, 32, 32)

    model.eval()

    dummy_input = torch.randn(batch_size, *input_shape)
    torch.onnx.export(
        model,
        dummy_input,
        "resnet50_official.onnx",
        input_names=["input"],
        output_names=["output"],
        opset_version=11,  # manual slip: a full-width comma
        dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},  # manual slip: a bracket too many
        dynamo=False,  # the exporter that the guide means: later versions of torch begin with another
    )


if __name__ == "__main__":
    convert()
