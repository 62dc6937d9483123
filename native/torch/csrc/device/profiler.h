// What torch's profiler is told beside times.
#pragma once

#include "memory/block.h"

#include <atomic>

namespace softnpu {

// Whether a profiler with profile_memory=True runs. Looked at with every allocation, so one plain load.
extern std::atomic<bool> memory_reports;

enum class Moved { kTaken, kFreed };

// Tells a profiler of this thread about a block.
void report_memory(const Block& block, Moved moved);

}  // namespace softnpu
