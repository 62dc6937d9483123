# ruff: noqa
# fmt: off
# The API development guide, appendix "Exporting custom APIs", TBE operator, way one.
import math

import torch
import torch_npu
from torch.nn import init
from torch.nn.parameter import Parameter
from torch.onnx.symbolic_helper import parse_args


# 定义API
@parse_args('v', 'v', 'f', 'i', 'i', 'i', 'i')
def symbolic_npu_roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sample_num, roi_end_mode):
    args = [input, rois]
    kwargs = {"spatial_scale_f": spatial_scale,
            "pooled_height_i": pooled_height,
            "pooled_width_i": pooled_width,
            "sample_num_i": sample_num,
            "roi_end_mode_i": roi_end_mode}

    return g.op('torch::npu_roi_align',*args, **kwargs)

# 注册API
import torch.onnx.symbolic_registry as sym_registry
def register_onnx_sym_npu_roi_align():
      sym_registry.register_op('npu_roi_align', symbolic_npu_roi_align, '', 11)

register_onnx_sym_npu_roi_align()

# 定义模型
class CustomModel_npu_op(torch.nn.Module):
    def __init__(self,a,b):
        super(CustomModel_npu_op, self).__init__()

        self.weight = Parameter(torch.Tensor(8,5))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.weight.data = (self.weight.data.abs() * 20).cumsum(1)  # regions: the random ones lie outside of the map
        self.weight.data[:, 0] = 0

    def forward(self, a, b, d):
        spatial_scale=d[0].item()
        pooled_height=d[1].item()
        pooled_width=d[2].item()
        sample_num=d[3].item()
        roi_end_mode=d[4].item()
        rtn = torch_npu.npu_roi_align(a, self.weight, spatial_scale, pooled_height, pooled_width, sample_num,roi_end_mode)

        return rtn

# 定义导出函数
def do_export(model, inputs, f, *args, **kwargs):
    out = torch.onnx._export(model, inputs, f, verbose=True, export_params=True, do_constant_folding=True,*args, **kwargs)

# 初始化输入
torch.manual_seed(0)
a = torch.randn(2, 3, 20, 24).npu()
b = torch.randn(2).npu()
h1 = [torch.tensor(0.5), torch.tensor(3), torch.tensor(2), torch.tensor(2), torch.tensor(1)]
f = "npu_roi_align.onnx"

# 导出onnx
model = CustomModel_npu_op(a,b)
model = model.npu()
model.eval()
do_export(model, (a, b, h1), f, input_names=["intput"]+["","","","","","","npu_roi_align.weight"],opset_version=11)
output = model(a, b, h1)
