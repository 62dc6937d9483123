// The API development guide, "Developing the adapter": the functions that it prints, and, above them, those that it only names.
#include <ATen/Tensor.h>
#include <c10/util/SmallVector.h>

#include "torch_npu/csrc/core/npu/register/OptionsManager.h"
#include "torch_npu/csrc/framework/utils/CalcuOpUtil.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"
#include "torch_npu/csrc/aten/NPUNativeFunctions.h"

#include <atomic>

namespace at_npu {
namespace native {

// ---- named by the guide, written for the test ----

static std::atomic<int64_t> calls{0};  // so that the test can see that its adapter is the one that runs

static void alpha_check_npu(at::ScalarType dtype, at::Scalar alpha) {
  TORCH_CHECK(!alpha.isBoolean() || dtype == at::ScalarType::Bool, "Boolean alpha only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(dtype) || alpha.isIntegral(true),
              "For integral input tensors, argument alpha must not be a floating point number.");
}

static bool check_size(const at::Tensor& self, const at::Tensor& other) { return self.dim() == 4 && self.sizes().equals(other.sizes()); }

static at::Tensor stride_add_tensor_get(const at::Tensor& self) { return self.contiguous(); }

static at::Tensor add_dest_output(const at::Tensor& self, const at::Tensor& other) {
  return CalcuOpUtil::is_scalar_wrapped_to_tensor(self) ? other : self;
}

static at::Tensor& adds_out_npu_nocheck(at::Tensor& result, const at::Tensor& self, at::Scalar other, at::Scalar alpha) {
  ++calls;
  const auto value = other.toDouble() * alpha.toDouble();
  OpCommand cmd;
  cmd.Name("Adds")
      .Expect(OpPreparation::binary_op_check(result, self, other, true))
      .Input(self)
      .Output(result)
      .Attr("value", static_cast<float>(value))
      .Run();
  return result;
}

static at::Tensor& add_out_npu_nocheck(at::Tensor& result, const at::Tensor& self, const at::Tensor& other, at::Scalar alpha) {
  if (CalcuOpUtil::is_scalar_wrapped_to_tensor(other)) return adds_out_npu_nocheck(result, self, other.item(), alpha);
  ++calls;
  OpCommand cmd;
  cmd.Expect(OpPreparation::binary_op_check(result, self, other, true)).Input(self).Input(other).Output(result);
  if (alpha.toDouble() == 1.0) {
    cmd.Name("Add");
  } else {
    cmd.Name("Axpy").Attr("alpha", alpha.toFloat());
  }
  cmd.Run();
  return result;
}

// ---- printed by the guide ----

 // 输入参数为Tensor和Tensor时
       at::Tensor NPUNativeFunctions::add(const at::Tensor &self, const at::Tensor &other, at::Scalar alpha)
       {
         alpha_check_npu(self.scalar_type(), alpha);
         if ((!(self.is_contiguous() && other.is_contiguous())) &&
             (NpuUtils::check_5d_5d_match(self) ||
             NpuUtils::check_5d_5d_match(other)) &&
             check_size(self, other))
         {
           int64_t c0_len = 16;
           at::Tensor self_use = stride_add_tensor_get(self);
           at::Scalar self_c1_offset(
             self.storage_offset() / (self.size(2) * self.size(3) * c0_len));
           at::Tensor other_use = stride_add_tensor_get(other);
           at::Scalar other_c1_offset(
             other.storage_offset() / (other.size(2) * other.size(3) * c0_len));
           at::Scalar stride_len(self.size(1) / c0_len);
           at::Tensor result = NPUNativeFunctions::npu_stride_add(
             self_use, other_use, self_c1_offset, other_c1_offset, stride_len);
           return result;
         }
         // calculate the output size
         at::Tensor outputTensor = add_dest_output(self, other);
         auto outputSize = broadcast_ops_npu_output_size(self, other);
         // construct the output tensor of the NPU
         at::Tensor result = OpPreparation::ApplyTensorWithFormat(
             outputSize,
       	  outputTensor.options(),
       	  CalcuOpUtil::get_tensor_npu_format(outputTensor));
         // calculate the output result of the NPU
         add_out_npu_nocheck(result, self, other, alpha);
         return result;
       }
       // 输入参数为Tensor和Scalar时
       at::Tensor NPUNativeFunctions::add(const at::Tensor &self, at::Scalar other, at::Scalar alpha)
       {
         alpha_check_npu(self.scalar_type(), alpha);
         // calculate the output size
         auto outputSize = input_same_output_size(self);
         // construct the output tensor of the NPU
         at::Tensor result = OpPreparation::ApplyTensorWithFormat(
             outputSize, self.options(), CalcuOpUtil::get_tensor_npu_format(self));
         // calculate the output result of the NPU
         adds_out_npu_nocheck(result, self, other, alpha);
         return result;
       }

// 输入参数为Tensor和Tensor时
       at::Tensor &NPUNativeFunctions::add_(at::Tensor &self, const at::Tensor &other, at::Scalar alpha)
       {
         c10::SmallVector<at::Tensor, N> inputs = {self, other};
         c10::SmallVector<at::Tensor, N> outputs = {self};
         CalcuOpUtil::check_memory_over_laps(inputs, outputs);
         if (!NpuUtils::check_match(&self))
         {
           at::Tensor contiguousSelf = NpuUtils::format_contiguous(self);
           at::Tensor result = add_out_npu_nocheck(contiguousSelf, contiguousSelf, other, alpha);
           NpuUtils::format_fresh_view(self, result);
         }
         else
         {
           add_out_npu_nocheck(self, self, other, alpha);
         }
         return self;
       }
       // 输入参数为Tensor和Scalar时
       at::Tensor &NPUNativeFunctions::add_(at::Tensor &self, at::Scalar other, at::Scalar alpha)
       {
         if (!NpuUtils::check_match(&self))
         {
           at::Tensor contiguousSelf = NpuUtils::format_contiguous(self);
           at::Tensor result = adds_out_npu_nocheck(contiguousSelf, contiguousSelf, other, alpha);
           NpuUtils::format_fresh_view(self, result);
         }
         else
         {
           adds_out_npu_nocheck(self, self, other, alpha);
         }
         return self;
       }

 at::Tensor &NPUNativeFunctions::add_out(
         const at::Tensor &self,
         const at::Tensor &other,
         at::Scalar alpha,
         at::Tensor &result)
     {
       bool isSelfWrapped = CalcuOpUtil::is_scalar_wrapped_to_tensor(self);
       at::Tensor outputTensor;
       if (not isSelfWrapped)
       {
         outputTensor = self;
       }
       else
       {
         outputTensor = other;
       }
       auto outputSize = broadcast_ops_npu_output_size(self, other);
       OpPreparation::CheckOut(
           {self},
           result,
           CalcuOpUtil::get_tensor_npu_format(result),
           outputTensor.scalar_type(),
           outputSize);
       OpPipeWithDefinedOut pipe;
       return pipe.CheckMemory({self, other}, {result})
           .Func([&self, &other, &alpha](at::Tensor &result)
                 { add_out_npu_nocheck(result, self, other, alpha); })
           .Call(result);
     }

}  // namespace native
}  // namespace at_npu

extern "C" int64_t add_kernel_calls() { return at_npu::native::calls; }
