// Devices, streams and events: what the runtime of an NPU keeps, over host memory.
//
// Work is done when it is called, in the thread that calls, so a stream is a name, an event a point in time.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>

namespace softnpu {

constexpr auto kNpu = c10::DeviceType::PrivateUse1;
constexpr int64_t kExternalStream = int64_t{1} << 31;  // mark in the number of a stream that pyACL made (torch_npu/_runtime/stream_ids.py)

// Where memory comes from and how many devices there are: set by the Python side, which owns the device memory.
struct Runtime {
  int device_count = 0;
  void* (*allocate)(int device, size_t bytes) = nullptr;  // null when there is none left
  void (*release)(int device, void* address) = nullptr;
  size_t (*total)(int device) = nullptr;
  size_t (*free)(int device) = nullptr;
  void (*initialise)() = nullptr;
};

Runtime& runtime();

c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device();
void set_device(c10::DeviceIndex index);
c10::DeviceIndex check_device(c10::DeviceIndex index);      // raises unless there is one
c10::DeviceIndex given_or_current(c10::DeviceIndex index);  // -1: the current one

// One device per thread, as the adapter of 2021 had it (chip.h): the first that a thread sets or uses stays its only one.
void use_device(c10::DeviceIndex index);
void keep_device_for_backward();
bool used_device_that_was_not_set();

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream default_stream(c10::DeviceIndex index);
c10::Stream pool_stream(c10::DeviceIndex index, int priority);
c10::Stream exchange_stream(c10::Stream stream);
int stream_priority(c10::StreamId id);
void set_streams_per_device(int count);

}  // namespace softnpu
