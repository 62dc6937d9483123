// Two ways to the CPU's kernels. `run_on_cpu` takes a whole call there; it is the fallback, and kernels of ours end in it. `OnCpu` is for
// kernels made of several CPU operators: arguments go over, results come back, memory counts as the device's. What is only declared here
// is defined in fallback.cpp.
#pragma once

#include "aten/alias.h"
#include "aten/saturate.h"
#include "device/chip.h"
#include "memory/allocator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace softnpu {

// The fallback: a whole call by the CPU's kernel.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for nested tensors.
void run_nested(const c10::OperatorHandle& op, torch::jit::Stack* stack);

[[noreturn]] void two_devices(c10::DeviceIndex first, const c10::Device& second);

// The error as it is, with the line of torch_npu's operators at its end.
[[noreturn]] void throw_with_line(const c10::Error& error);

template <typename Call>
decltype(auto) with_line(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw_with_line(error);
  }
}

class OnCpu {
 public:
  explicit OnCpu(const at::Tensor& like, const char* name = "") : device_(like.device()), memory_(like.device().index()) {
    if (C10_UNLIKELY(strict() != 0)) check_kernel(name, like);
  }

  at::Tensor operator()(const at::Tensor& tensor) {
    if (tensor.defined() && tensor.device() != device_) two_devices(device_.index(), tensor.device());
    return aliases_.to_cpu(tensor);
  }
  std::optional<at::Tensor> operator()(const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() && tensor->defined() ? std::optional<at::Tensor>((*this)(*tensor)) : std::nullopt;
  }
  at::Tensor back(const at::Tensor& result) {
    if (C10_UNLIKELY((strict() & kSaturates) != 0)) saturate(result);
    return aliases_.to_npu(result, device_);
  }

 private:
  c10::Device device_;
  Aliases aliases_;
  CpuMemoryIsNpu memory_;
  at::AutoDispatchBelowADInplaceOrView no_autograd_;  // torch has recorded the call above
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace softnpu
