// How a device's memory gets segments and gives them back, and what happens when there are none left.
#include "device/device.h"
#include "device/errors.h"
#include "device/python_lock.h"
#include "memory/device_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>

namespace softnpu {

namespace {

std::string human(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed;
  if (bytes < 1024) {
    text << bytes << " bytes";
  } else if (bytes < kMiB) {
    text << static_cast<double>(bytes) / 1024.0 << " KiB";
  } else if (bytes < size_t{1} << 30) {
    text << static_cast<double>(bytes) / static_cast<double>(kMiB) << " MiB";
  } else {
    text << static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30) << " GiB";
  }
  return text.str();
}

size_t part(double fraction, size_t total) { return static_cast<size_t>(fraction * static_cast<double>(total)); }

}  // namespace

MemorySource& memory_source() {
  static MemorySource source;
  return source;
}

// A block of a new segment, or of one that another thread made meanwhile. It is not in the free blocks, so it is the caller's.
Block* DeviceMemory::grow(size_t bytes, c10::StreamId stream, const Context& context) {
  const PythonLetGo no_python;
  memory_source().configure();
  std::lock_guard<std::recursive_mutex> growing(growth_);
  const size_t total = runtime().total(index_);
  Lock lock(mutex_);
  const size_t size = options_.block_size(bytes);
  const bool large = size > kSmall;
  if (Block* block = take(size, stream, large)) return block;
  const size_t wanted = options_.segment_size(size);
  const size_t allowed = fraction_ < 1.0 ? part(fraction_, total) : std::numeric_limits<size_t>::max();
  if (options_.collect_above > 0) collect(lock, wanted, part(options_.collect_above, std::min(allowed, total)));
  void* address = ask(lock, wanted, stream, allowed);
  if (address == nullptr && release_oversize(lock, size, stream)) address = ask(lock, wanted, stream, allowed);
  if (address == nullptr) {
    ++counts_.stats.num_alloc_retries;
    release_cached(lock, std::nullopt);
    address = ask(lock, wanted, stream, allowed);
  }
  if (address != nullptr) return add_segment(address, wanted, stream, large, context);
  if (Block* block = take_from_pools(size, large)) return block;
  fail(lock, wanted, stream, total, context);
}

Block* DeviceMemory::add_segment(void* address, size_t bytes, c10::StreamId stream, bool large, const Context& context) {
  device_is_used();
  Block* block = new_block();
  block->stream = stream;
  block->address = static_cast<char*>(address);
  block->size = bytes;
  block->large = large;
  block->used = true;
  segments_.insert(block);
  counts_.segment_came(*block, options_.max_split);
  if (tracing()) {
    if (context != nullptr) segment_contexts_[block->address] = context;
    trace_.add("segment_alloc", reinterpret_cast<size_t>(address), bytes, stream, context);
  }
  return block;
}

void* DeviceMemory::ask(Lock& lock, size_t bytes, c10::StreamId stream, size_t allowed) {
  if (counts_.reserved() + bytes > allowed) return nullptr;
  lock.unlock();
  void* address = memory_source().allocate(index_, bytes, stream);
  lock.lock();
  return address;
}

// Segments that have been unused longest go back until the reserved memory is below the threshold again.
void DeviceMemory::collect(Lock& lock, size_t wanted, size_t threshold) {
  if (counts_.reserved() + wanted <= threshold) return;
  std::vector<Block*> idle;
  std::copy_if(large_.begin(), large_.end(), std::back_inserter(idle), [](const Block* block) { return block->whole(); });
  std::sort(idle.begin(), idle.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  std::vector<Block*> gone;
  for (Block* block : idle) {
    if (counts_.reserved() + wanted <= threshold) break;
    forget_segment(block);
    gone.push_back(block);
  }
  release(lock, gone);
}

// Whole blocks above max_split of this stream that are too large for what is asked: they would lie idle otherwise.
bool DeviceMemory::release_oversize(Lock& lock, size_t size, c10::StreamId stream) {
  if (options_.max_split == std::numeric_limits<size_t>::max()) return false;
  std::vector<Block*> gone;
  size_t found = 0;
  auto it = large_.lower_bound({stream, std::max(size, options_.max_split)});
  while (it != large_.end() && (*it)->stream == stream && found < size) {
    Block* block = *it++;
    if (!block->whole()) continue;
    found += block->size;
    forget_segment(block);
    gone.push_back(block);
  }
  release(lock, gone);
  return found >= size;
}

void DeviceMemory::release_cached(Lock& lock, std::optional<uint32_t> pool) {
  finish_pending();
  std::vector<Block*> gone;
  for (auto* blocks : {&small_, &large_}) {
    for (auto it = blocks->begin(); it != blocks->end();) {
      Block* block = *it++;
      if (!block->whole() || (pool.has_value() && pool_of(block->stream) != *pool)) continue;
      forget_segment(block);
      gone.push_back(block);
    }
  }
  release(lock, gone);
}

void DeviceMemory::forget_segment(Block* block) {
  take_out(block);
  counts_.segment_went(*block, options_.max_split);
  segments_.erase(block);
  segment_contexts_.erase(block->address);
  if (tracing()) trace_.add("segment_free", reinterpret_cast<size_t>(block->address), block->size, block->stream, nullptr);
}

void DeviceMemory::release(Lock& lock, const std::vector<Block*>& gone) {
  if (gone.empty()) return;
  lock.unlock();
  for (Block* block : gone) memory_source().release(index_, block->address, block->size, block->stream);
  lock.lock();
  for (Block* block : gone) end_block(block);
}

void DeviceMemory::empty_cache(std::optional<uint32_t> pool) {
  const PythonLetGo no_python;
  std::lock_guard<std::recursive_mutex> growing(growth_);
  Lock lock(mutex_);
  ++counts_.stats.num_sync_all_streams;
  release_cached(lock, pool);
}

// The smallest block that fits among the pools that lend their memory when there is no other (MemPool(use_on_oom=True)).
Block* DeviceMemory::take_from_pools(size_t size, bool large) {
  Block* best = nullptr;
  for (Block* block : free_blocks(large)) {
    if (block->size < size || (best != nullptr && best->size <= block->size)) continue;
    if (pool_helps(pool_of(block->stream))) best = block;
  }
  if (best == nullptr) return nullptr;
  take_out(best);
  best->used = true;
  return best;
}

void DeviceMemory::fail(Lock& lock, size_t wanted, c10::StreamId stream, size_t total, const Context& context) {
  const auto& stats = counts_.stats;
  ++counts_.stats.num_ooms;
  const auto allocated = stats.allocated_bytes[0].current, active = stats.active_bytes[0].current;
  const auto reserved = stats.reserved_bytes[0].current;
  const double fraction = fraction_;
  lock.unlock();
  const size_t free = runtime().free(index_);
  lock.lock();
  if (tracing()) trace_.add("oom", free, wanted, stream, context);
  lock.unlock();
  memory_source().out_of_memory(index_, wanted, free);
  const std::string allowed = fraction < 1.0 ? human(part(fraction, total)) + " allowed; " : "";
  TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", human(wanted), " (NPU ", static_cast<int>(index_),
                   "; ", human(total), " total capacity; ", human(allocated), " already allocated; ", human(active), " current active; ",
                   human(free), " free; ", allowed, human(reserved),
                   " reserved in total by PyTorch).If reserved memory is >> allocated memory try setting max_split_size_mb to "
                   "avoid fragmentation.",
                   fraction >= 1.0 && free >= wanted ? " The memory of this machine, which stands for the device's, does not suffice." : "",
                   pta_error(ErrCode::kMemory));
}

}  // namespace softnpu
