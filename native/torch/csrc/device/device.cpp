#include "device/device.h"

#include "device/chip.h"
#include "device/errors.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>

namespace softnpu {

namespace {

constexpr int kMaxDevices = 16;
thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> t_streams{};  // 0: the default stream
std::array<std::atomic<uint32_t>, kMaxDevices> next_stream{};
std::atomic<uint32_t> streams_per_device{32};

// The thread's only device where it may have only one, and the device that was current before: guards go back to that one, which is
// not yet a use of it.
thread_local c10::DeviceIndex t_kept = -1, t_before = 0;
thread_local bool t_kept_by_backward = false;
std::atomic<bool> another_was_used{false};

// A stream id holds its number in the pool (from 1) and, above, its priority as a positive number.
constexpr int kPriorityShift = 16;

[[noreturn]] void exchange_device(c10::DeviceIndex index) {
  TORCH_CHECK(!t_kept_by_backward, "0 INTERNAL ASSERT FAILED: backward ran before torch.npu.set_device, so this thread began with npu:",
              static_cast<int>(t_kept), " and cannot go on with npu:", static_cast<int>(index),
              ": call torch.npu.set_device first in the program", pta_error(ErrCode::kParam));
  TORCH_CHECK(false, "ExchangeDevice: this thread uses npu:", static_cast<int>(t_kept),
              " and cannot switch to npu:", static_cast<int>(index),
              " on this chip: use one device per thread, set by torch.npu.set_device before anything else,",
              " or set SOFTNPU_TORCH=lenient", pta_error(ErrCode::kParam));
}

void keep_device(c10::DeviceIndex index) {
  t_before = t_device;
  t_kept = index;
}

}  // namespace

Runtime& runtime() {
  static Runtime the_runtime;
  return the_runtime;
}

c10::DeviceIndex device_count() noexcept { return static_cast<c10::DeviceIndex>(runtime().device_count); }

c10::DeviceIndex check_device(c10::DeviceIndex index) {
  // torch keeps an index in a byte with a sign: npu:128 arrives as -128.
  TORCH_CHECK(index >= 0 && index < device_count(), "Invalid device id ", index < -1 ? index + 256 : static_cast<int>(index),
              ": there are ", static_cast<int>(device_count()), " npu devices", pta_error(ErrCode::kParam));
  return index;
}

c10::DeviceIndex current_device() { return t_device; }

c10::DeviceIndex given_or_current(c10::DeviceIndex index) { return index == -1 ? t_device : check_device(index); }

void set_device(c10::DeviceIndex index) {
  check_device(index);
  if (C10_UNLIKELY((strict() & kOneDevice) != 0)) {
    if (t_kept < 0) keep_device(index);
    if (index != t_kept && index != t_before) exchange_device(index);
  }
  t_device = index;
}

void use_device(c10::DeviceIndex index) {
  if (C10_LIKELY(strict() == 0)) return;
  if ((strict() & kForked) != 0) refuse_in_fork();
  if ((strict() & kOneDevice) == 0) return;
  if (t_kept < 0) {
    if (index != t_device) another_was_used = true;
    keep_device(index);
  }
  if (index != t_kept) exchange_device(index);
}

void keep_device_for_backward() {
  if ((strict() & kOneDevice) == 0 || t_kept >= 0) return;
  keep_device(t_device);
  t_kept_by_backward = true;
}

bool used_device_that_was_not_set() { return another_was_used; }

c10::Stream default_stream(c10::DeviceIndex index) { return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), 0); }

c10::Stream current_stream(c10::DeviceIndex index) {
  if (index < 0) index = t_device;
  if (C10_UNLIKELY(index >= kMaxDevices)) check_device(index);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), t_streams[index]);
}

c10::Stream pool_stream(c10::DeviceIndex index, int priority) {
  if (index < 0) index = t_device;
  check_device(index);
  const auto number = 1 + next_stream[index].fetch_add(1) % streams_per_device.load(std::memory_order_relaxed);
  const auto level = static_cast<c10::StreamId>(priority < 0 ? -priority : 0);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, index), (level << kPriorityShift) | number);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto index = stream.device_index();
  const auto before = current_stream(index);
  t_streams[index] = stream.id();
  return before;
}

void set_streams_per_device(int count) { streams_per_device = static_cast<uint32_t>(count); }

int stream_priority(c10::StreamId id) { return -static_cast<int>(id >> kPriorityShift); }

}  // namespace softnpu
