// How torch switches devices and streams, and what an event is here: the moment in which it was recorded.
#include "device/device.h"
#include "device/errors.h"
#include "memory/allocator.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>

namespace softnpu {

namespace {

using Clock = std::chrono::steady_clock;

struct EventMoment {
  std::atomic<int64_t> nanoseconds{0};
};

struct NpuGuardImpl final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNpu; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = current_device();
    if (device.index() != before) set_device(device.index());
    return c10::Device(kNpu, before);
  }

  c10::Device getDevice() const override { return c10::Device(kNpu, current_device()); }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) set_device(device.index());
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(given_or_current(device.index())); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(given_or_current(device.index())); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override { return pool_stream(device.index(), high ? -1 : 0); }
  c10::Stream getNewStream(c10::Device device, int priority) const override { return pool_stream(device.index(), priority); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    check_device(stream.device_index());
    return exchange_stream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>((static_cast<intptr_t>(stream.device_index()) << 32) | stream.id());
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<EventMoment*>(event); }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device, const c10::EventFlag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ", static_cast<int>(device),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".",
                pta_error(ErrCode::kParam));
    if (*event == nullptr) *event = new EventMoment;
    const auto now = Clock::now().time_since_epoch();
    static_cast<EventMoment*>(*event)->nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr, "Both events must be recorded before calculating elapsed time.",
                pta_error(ErrCode::kParam));
    return static_cast<double>(static_cast<EventMoment*>(second)->nanoseconds - static_cast<EventMoment*>(first)->nanoseconds) / 1e6;
  }

  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator()->recordStream(data, stream);
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, NpuGuardImpl);

}  // namespace softnpu
