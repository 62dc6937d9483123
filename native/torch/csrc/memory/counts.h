// The figures of torch.npu.memory_stats, and how events change them.
#pragma once

#include "memory/block.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace softnpu {

class MemoryCounts {
 public:
  using Stat = c10::CachingAllocator::Stat;
  using StatArray = c10::CachingAllocator::StatArray;

  c10::CachingDeviceAllocator::DeviceStats stats;

  size_t reserved() const { return static_cast<size_t>(stats.reserved_bytes[0].current); }

  void allocated(const Block& block, size_t max_split) {
    more(stats.allocation, block, 1);
    more(stats.active, block, 1);
    more(stats.allocated_bytes, block, block.size);
    more(stats.active_bytes, block, block.size);
    more(stats.requested_bytes, block, block.requested);
    if (C10_UNLIKELY(block.size >= max_split)) stats.oversize_allocations.increase(1);
  }

  void freed(const Block& block, size_t max_split) {  // by the program
    less(stats.allocation, block, 1);
    less(stats.allocated_bytes, block, block.size);
    if (C10_UNLIKELY(block.size >= max_split)) stats.oversize_allocations.decrease(1);
  }

  void completed(const Block& block) {  // by its streams
    less(stats.active, block, 1);
    less(stats.active_bytes, block, block.size);
    less(stats.requested_bytes, block, block.requested);
  }

  void inactive(const Block& block) {
    more(stats.inactive_split, block, 1);
    more(stats.inactive_split_bytes, block, block.size);
  }

  void no_longer_inactive(const Block& block) {
    less(stats.inactive_split, block, 1);
    less(stats.inactive_split_bytes, block, block.size);
  }

  void segment_came(const Block& block, size_t max_split) {
    more(stats.segment, block, 1);
    more(stats.reserved_bytes, block, block.size);
    ++stats.num_device_alloc;
    if (block.size >= max_split) stats.oversize_segments.increase(1);
  }

  void segment_went(const Block& block, size_t max_split) {
    less(stats.segment, block, 1);
    less(stats.reserved_bytes, block, block.size);
    ++stats.num_device_free;
    if (block.size >= max_split) stats.oversize_segments.decrease(1);
  }

  void reset_peaks() {
    each([](Stat& stat) { stat.reset_peak(); });
  }

  void reset_accumulated() {
    each([](Stat& stat) { stat.reset_accumulated(); });
    stats.num_alloc_retries = stats.num_ooms = 0;
    stats.num_device_alloc = stats.num_device_free = stats.num_sync_all_streams = 0;
  }

 private:
  static void more(StatArray& array, const Block& block, size_t amount) {
    array[0].increase(amount);
    array[block.large ? 2 : 1].increase(amount);
  }

  static void less(StatArray& array, const Block& block, size_t amount) {
    array[0].decrease(amount);
    array[block.large ? 2 : 1].decrease(amount);
  }

  template <typename Change>
  void each(Change apply) {
    for (auto* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
      for (auto& stat : *array) apply(stat);
    }
    apply(stats.oversize_allocations);
    apply(stats.oversize_segments);
  }
};

}  // namespace softnpu
