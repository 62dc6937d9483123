// The history of a device's memory: what torch.npu.memory._record_memory_history asks for, for torch's memory viewer.
//
// While nothing is recorded it costs one relaxed load per allocation. Stacks are gathered before any lock is taken: that needs
// Python's own lock, whose holder may be waiting for ours.
#pragma once

#include "memory/block.h"

#include <atomic>
#include <deque>
#include <string>

namespace softnpu {

enum class Stacks : int { kNever = 0, kState = 1, kAllocations = 2, kAll = 3 };

struct TraceEntry {
  const char* action;
  size_t address;  // for "oom" the free memory of the device
  size_t size;
  c10::StreamId stream;
  int64_t time_us;
  Context context;
};

struct TraceSettings {
  std::atomic<bool> on{false};
  std::atomic<bool> entries{false};  // otherwise only the stacks of live blocks
  std::atomic<Stacks> stacks{Stacks::kNever};
};

TraceSettings& trace_settings();

inline bool tracing() { return trace_settings().on.load(std::memory_order_relaxed); }

// The Python stack of this thread when at least `least` is asked for. Frames of C++ are left out: torch's wheel has no lines for them,
// and finding their names takes seconds.
Context gather_stack(Stacks least);

// The last entries of one device. Used under the lock of that device.
class Trace {
 public:
  void add(const char* action, size_t address, size_t size, c10::StreamId stream, Context context);
  void keep_at_most(size_t most);
  void clear() { entries_.clear(); }
  std::vector<TraceEntry> entries() const { return {entries_.begin(), entries_.end()}; }

 private:
  std::deque<TraceEntry> entries_;
  size_t most_ = std::numeric_limits<size_t>::max();
};

}  // namespace softnpu
