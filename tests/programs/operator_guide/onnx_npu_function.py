# ruff: noqa
# fmt: off
# The API development guide, appendix "Exporting custom APIs", TBE operator, way two.
import math

import torch
import torch_npu
from torch.autograd import Function
from torch.nn import init
from torch.nn.parameter import Parameter

rnddata_device = "cpu"
ONNX_NPU_OP_MODULE_FILENAME = "npu_op_module.onnx"


# 实现API方法类及符号导出实现的方法
class CustomClassOp_Func_npu_roi_align(Function):
    @staticmethod
    def forward(ctx, input, rois, spatial_scale, pooled_height, pooled_width , sample_num, roi_end_mode):
        rtn = torch_npu.npu_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sample_num, roi_end_mode)
        return rtn

    @staticmethod
    def symbolic(g, input, rois, spatial_scale, pooled_height, pooled_width , sample_num, roi_end_mode):
        args = [input, rois]
        kwargs = {"spatial_scale_f": spatial_scale,
                    "pooled_height_i": pooled_height,
                    "pooled_width_i": pooled_width,
                    "sample_num_i": sample_num,
                    "roi_end_mode_i": roi_end_mode}
        return g.op('torch::npu_roi_align',*args, **kwargs)

# 实现API模型
class NpuOp_npu_roi_align_Module(torch.nn.Module):
    def __init__(self):
        super(NpuOp_npu_roi_align_Module, self).__init__()

        self.spatial_scale = torch.rand(10, dtype=torch.float32, requires_grad=False,device="cpu")[0].item()
        self.pooled_height = 2
        self.pooled_width = 3
        self.sample_num = 1
        self.roi_end_mode = 1

        self.weight = Parameter(torch.Tensor(8,5))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.weight.data = (self.weight.data.abs() * 20).cumsum(1)  # regions: the random ones lie outside of the map
        self.weight.data[:, 0] = 0

        self.func = CustomClassOp_Func_npu_roi_align.apply
        self.test_npu_op=1

    def forward(self, input):
        rtn = self.func(input, self.weight, self.spatial_scale, self.pooled_height, self.pooled_width, self.sample_num, self.roi_end_mode)
        return rtn

# 创建自定义模型
class CustomModel_Module_op(torch.nn.Module):
    def __init__(self,a,b):
        super(CustomModel_Module_op, self).__init__()
        self.npu_roi_align = NpuOp_npu_roi_align_Module()
    #@staticmethod
    def forward(self, a):
        rtn = self.npu_roi_align(a)
        return rtn

def do_export(model, inputs, f, *args, **kwargs):
    out = torch.onnx._export(model, inputs, f, verbose=True, export_params=True, do_constant_folding=True,*args, **kwargs)

# 构建数据
a = torch.randn(5, 3, 10, 24, dtype=torch.float32, requires_grad=True,device=rnddata_device)
b = torch.randn(10, 3, 10, 24, dtype=torch.float32, requires_grad=True,device=rnddata_device)

# 模型实例化
model = CustomModel_Module_op(a,b)
model = model.npu()
model.eval()
a = a.to('npu:0')
b = b.to('npu:0')

# 导出onnx
do_export(model, a, f=ONNX_NPU_OP_MODULE_FILENAME, input_names=["intput"]+["npu_roi_align.weight"],opset_version=11)
output = model(a)
