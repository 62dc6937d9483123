#include "device.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>

namespace softnpu {

namespace {

constexpr int kMaxDevices = 16;
thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> t_streams{};  // 0: the default stream
std::array<std::atomic<uint32_t>, kMaxDevices> next_stream{};

// A stream id holds its number in the pool (from 1) and, above, its priority as a positive number.
constexpr int kPriorityShift = 16;

}  // namespace

Runtime& runtime() {
  static Runtime the_runtime;
  return the_runtime;
}

c10::DeviceIndex device_count() noexcept { return static_cast<c10::DeviceIndex>(runtime().device_count); }

c10::DeviceIndex check_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < device_count(), "Invalid device id ", static_cast<int>(index), ": there are ",
              static_cast<int>(device_count()), " npu devices");
  return index;
}

c10::DeviceIndex current_device() { return t_device; }

void set_device(c10::DeviceIndex index) { t_device = check_device(index); }

c10::Stream default_stream(c10::DeviceIndex index) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), 0);
}

c10::Stream current_stream(c10::DeviceIndex index) {
  if (index < 0) index = t_device;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), t_streams[index]);
}

c10::Stream pool_stream(c10::DeviceIndex index, int priority) {
  if (index < 0) index = t_device;
  check_device(index);
  const auto number = 1 + next_stream[index].fetch_add(1) % kStreamsPerDevice;
  const auto level = static_cast<c10::StreamId>(priority < 0 ? -priority : 0);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), (level << kPriorityShift) | number);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto index = stream.device_index();
  const auto before = current_stream(index);
  t_streams[index] = stream.id();
  return before;
}

int stream_priority(c10::StreamId id) { return -static_cast<int>(id >> kPriorityShift); }

}  // namespace softnpu
