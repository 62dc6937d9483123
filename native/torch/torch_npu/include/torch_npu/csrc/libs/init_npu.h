// Start and end of npu in a program of C++.
#pragma once

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace torch_npu {

inline void init_npu(c10::DeviceIndex device = 0) { c10_npu::set_device(device); }
inline void init_npu(const at::Device& device) { init_npu(device.index()); }
inline void finalize_npu() {}  // devices end with the process

}  // namespace torch_npu

namespace torch {
namespace npu {

inline void synchronize(int64_t device = -1) {
  c10_npu::guard_impl().synchronizeDevice(c10_npu::npu_device(static_cast<c10::DeviceIndex>(device)).index());
}

}  // namespace npu
}  // namespace torch
