#include "memory/trace.h"

#include "device/python_lock.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>

namespace softnpu {

TraceSettings& trace_settings() {
  static TraceSettings settings;
  return settings;
}

Context gather_stack(Stacks least) {
  if (trace_settings().stacks.load() < least || !python_is_up()) return nullptr;
  return torch::CapturedTraceback::gather(true, true, false);
}

void Trace::add(const char* action, size_t address, size_t size, c10::StreamId stream, Context context) {
  if (!trace_settings().entries.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t time_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  while (entries_.size() >= most_) entries_.pop_front();
  entries_.push_back({action, address, size, plain_stream(stream), time_us, std::move(context)});
}

void Trace::keep_at_most(size_t most) {
  most_ = most;
  while (entries_.size() > most_) entries_.pop_front();
}

}  // namespace softnpu
