// Random numbers of npu.
#pragma once

#include "torch_npu/csrc/core/npu/NPUStream.h"

#include <ATen/Context.h>

namespace at_npu {
namespace detail {

inline const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex device = -1) {
  return at::globalContext().defaultGenerator(c10_npu::npu_device(device));
}
inline at::Generator createNPUGenerator(c10::DeviceIndex device = -1) {
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(c10::DeviceType::PrivateUse1);
  return hooks.getNewGenerator(c10_npu::npu_device(device).index());
}

}  // namespace detail
}  // namespace at_npu
