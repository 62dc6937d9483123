// Questions about tensors that adapters ask.
#pragma once

#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/framework/OpCommand.h"

#include <ATen/MemoryOverlap.h>

namespace at_npu {
namespace native {

class CalcuOpUtil {
 public:
  static int64_t get_tensor_npu_format(const at::Tensor& tensor) { return get_npu_format(tensor); }
  static int64_t GetTensorNpuFormat(const at::Tensor& tensor) { return get_npu_format(tensor); }

  // A number that Python wrapped: it has no dimensions and stays on the CPU.
  static bool is_scalar_wrapped_to_tensor(const at::Tensor& tensor) { return tensor.dim() == 0 && tensor.device().is_cpu(); }
  static bool IsScalarWrappedToTensor(const at::Tensor& tensor) { return is_scalar_wrapped_to_tensor(tensor); }

  static void check_memory_over_laps(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> outputs) {
    for (const auto& output : outputs) {
      if (!output.defined()) continue;
      at::assert_no_internal_overlap(output);
      for (const auto& input : inputs) {
        if (input.defined() && input.device() == output.device()) at::assert_no_partial_overlap(output, input);
      }
    }
  }
  static void CheckMemoryOverLaps(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> outputs) {
    check_memory_over_laps(inputs, outputs);
  }
};

}  // namespace native
}  // namespace at_npu
