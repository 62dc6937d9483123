#include "memory/cpu_memory.h"

#include "memory/allocator.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace softnpu {

namespace {

thread_local int t_cpu_is_npu = -1;

// Memory for CPU kernels: the machine's, or that of the device which they run for.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* before) : before_(before) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (t_cpu_is_npu < 0) return before_->allocate(bytes);
    auto data = allocate_on(static_cast<c10::DeviceIndex>(t_cpu_is_npu), bytes);
    data.unsafe_set_device(c10::Device(c10::DeviceType::CPU));
    return data;
  }

  // Memory of either kind may come back to it.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* target, const void* source, size_t count) const override { std::memcpy(target, source, count); }

 private:
  static void release(void* address);
  c10::Allocator* before_;
};

CpuAllocator* the_cpu_allocator = nullptr;

void CpuAllocator::release(void* address) {
  if (!free_if_ours(address)) the_cpu_allocator->before_->raw_deallocate(address);
}

}  // namespace

CpuMemoryIsNpu::CpuMemoryIsNpu(c10::DeviceIndex device) : before_(t_cpu_is_npu) { t_cpu_is_npu = device; }
CpuMemoryIsNpu::~CpuMemoryIsNpu() { t_cpu_is_npu = before_; }

void install_cpu_allocator() {
  the_cpu_allocator = new CpuAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(the_cpu_allocator, 255);
}

}  // namespace softnpu
