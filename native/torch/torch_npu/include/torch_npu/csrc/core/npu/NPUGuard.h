// A device or a stream for the length of a block.
#pragma once

#include "torch_npu/csrc/core/npu/NPUStream.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

namespace c10_npu {

class NPUGuard {
 public:
  explicit NPUGuard(c10::DeviceIndex device) : guard_(c10::Device(c10::DeviceType::PrivateUse1, device)) {}
  explicit NPUGuard(c10::Device device) : guard_(device) {}
  c10::Device original_device() const { return guard_.original_device(); }
  c10::Device current_device() const { return guard_.current_device(); }

 private:
  c10::DeviceGuard guard_;
};

class NPUStreamGuard {
 public:
  explicit NPUStreamGuard(const NPUStream& stream) : guard_(stream.unwrap()) {}
  NPUStream original_stream() const { return NPUStream(guard_.original_stream()); }
  NPUStream current_stream() const { return NPUStream(guard_.current_stream()); }

 private:
  c10::StreamGuard guard_;
};

}  // namespace c10_npu
