// Marks on streams.
#pragma once

#include "torch_npu/csrc/core/npu/NPUStream.h"

#include <c10/core/Event.h>

namespace c10_npu {

class NPUEvent {
 public:
  NPUEvent() : event_(c10::DeviceType::PrivateUse1) {}
  void record() { record(getCurrentNPUStream()); }
  void record(const NPUStream& stream) { event_.record(stream.unwrap()); }
  void block(const NPUStream& stream) { event_.block(stream.unwrap()); }
  bool query() const { return event_.query(); }
  void synchronize() const { event_.synchronize(); }

 private:
  c10::Event event_;
};

}  // namespace c10_npu
