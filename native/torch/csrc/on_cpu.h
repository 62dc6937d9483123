// For kernels made of several CPU operators: arguments go over to the CPU, results come back, memory counts as the device's.
#pragma once

#include "alias.h"
#include "allocator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace softnpu {

// The fallback: a whole call by the CPU's kernel.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

class OnCpu {
 public:
  explicit OnCpu(const at::Tensor& like) : device_(like.device()), memory_(like.device().index()) {}

  at::Tensor operator()(const at::Tensor& tensor) { return aliases_.to_cpu(tensor); }
  std::optional<at::Tensor> operator()(const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() && tensor->defined() ? std::optional<at::Tensor>(aliases_.to_cpu(*tensor)) : std::nullopt;
  }
  at::Tensor back(const at::Tensor& result) { return aliases_.to_npu(result, device_); }

 private:
  c10::Device device_;
  Aliases aliases_;
  CpuMemoryIsNpu memory_;
  at::AutoDispatchBelowADInplaceOrView no_autograd_;  // torch has recorded the call above
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace softnpu
