// The steps of an out= form, one after another.
#pragma once

#include "torch_npu/csrc/framework/utils/NpuUtils.h"
#include "torch_npu/csrc/framework/utils/OpPreparation.h"

#include <functional>

namespace at_npu {
namespace native {

class OpPipeWithDefinedOut {
 public:
  using Process = std::function<void(at::Tensor&)>;

  OpPipeWithDefinedOut& CheckMemory(std::initializer_list<at::Tensor> inputs, std::initializer_list<at::Tensor> outputs) {
    OpPreparation::check_memory(inputs, outputs);
    return *this;
  }
  OpPipeWithDefinedOut& Func(const Process& function) {
    function_ = function;
    return *this;
  }
  // A strided result is computed densely and copied.
  at::Tensor& Call(at::Tensor& out) {
    TORCH_CHECK(function_, "OpPipeWithDefinedOut: there is nothing to call; pass a function to Func first");
    if (NpuUtils::check_match(&out)) {
      function_(out);
    } else {
      auto dense = NpuUtils::format_contiguous(out);
      function_(dense);
      NpuUtils::format_fresh_view(out, dense);
    }
    return out;
  }

 private:
  Process function_;
};

}  // namespace native
}  // namespace at_npu
