// The clock of torch's profiler for npu (`use_device="npu"`). Work is over when a call returns, so the device's time is the host's.
#include "device/profiler.h"

#include "device/device.h"
#include "formats/formats.h"
#include "memory/device_memory.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace softnpu {

namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

struct Clock final : public ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const auto now = nanoseconds();
    if (device != nullptr) *device = current_device();
    if (cpu_ns != nullptr) *cpu_ns = c10::getTime();
    *event = std::shared_ptr<void>(new int64_t(now), [](void* moment) { delete static_cast<int64_t*>(moment); });
  }

  float elapsed(const ProfilerVoidEventStub* first, const ProfilerVoidEventStub* second) const override {
    const auto span = *static_cast<const int64_t*>(second->get()) - *static_cast<const int64_t*>(first->get());
    return static_cast<float>(static_cast<double>(span) / 1e3);  // microseconds
  }

  void mark(const char*) const override {}  // there is no device timeline of its own to put names on
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void synchronize() const override {}

  void onEachDevice(std::function<void(int)> op) const override {
    for (int index = 0; index < device_count(); ++index) op(index);
  }
};

const bool registered = [] {
  static Clock clock;
  torch::profiler::impl::registerPrivateUse1Methods(&clock);
  return true;
}();

}  // namespace

std::atomic<bool> memory_reports{false};

void report_memory(const Block& block, Moved moved) {
  const auto stats = block.owner->stats();
  const auto size = static_cast<int64_t>(block.size);
  c10::reportMemoryUsageToProfiler(block.address, moved == Moved::kTaken ? size : -size, stats.allocated_bytes[0].current,
                                   stats.reserved_bytes[0].current, c10::Device(kNpu, block.owner->device()));
}

}  // namespace softnpu
