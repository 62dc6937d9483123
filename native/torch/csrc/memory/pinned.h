// Pinned host memory: torch's caching allocator for it, over ordinary memory whose ranges are remembered.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winterference-size"  // torch aligns by it
#include <ATen/core/CachingHostAllocator.h>
#pragma GCC diagnostic pop

namespace softnpu {

at::HostAllocator* pinned_allocator();
bool is_pinned(const void* address);

}  // namespace softnpu
