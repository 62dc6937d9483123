// Memory that CPU kernels ask for while they work for a device: it is the device's, so that results need no copy and are counted.
#pragma once

#include <c10/core/Device.h>

namespace softnpu {

// Whether memory that CPU kernels ask for in this thread belongs to a device: the fallback runs them for it.
struct CpuMemoryIsNpu {
  explicit CpuMemoryIsNpu(c10::DeviceIndex device);
  ~CpuMemoryIsNpu();
  CpuMemoryIsNpu(const CpuMemoryIsNpu&) = delete;
  CpuMemoryIsNpu& operator=(const CpuMemoryIsNpu&) = delete;

 private:
  int before_;
};

void install_cpu_allocator();

}  // namespace softnpu
