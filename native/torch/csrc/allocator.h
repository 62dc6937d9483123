// The caching allocator of the npu devices: blocks cut out of segments, with the counts that torch.npu.memory_stats shows.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <string>
#include <vector>

namespace softnpu {

c10::DeviceAllocator* allocator();

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream);
void raw_free(void* address);
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);
std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot();
void empty_cache();

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
