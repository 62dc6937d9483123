#include "memory/device_memory.h"

#include "device/errors.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <shared_mutex>

namespace softnpu {

namespace {
constexpr size_t kMostBytes = size_t{1} << 62;  // sizes above would wrap while they are rounded
}

namespace {

struct PoolFlags {
  bool no_split, use_on_oom;
};

std::shared_mutex& pools_mutex() {
  static auto* one = new std::shared_mutex;
  return *one;
}

ska::flat_hash_map<uint32_t, PoolFlags>& pools() {
  static auto* all = new ska::flat_hash_map<uint32_t, PoolFlags>;
  return *all;
}

PoolFlags flags_of(uint32_t pool) {
  if (pool == 0) return {false, false};
  std::shared_lock<std::shared_mutex> lock(pools_mutex());
  auto found = pools().find(pool);
  return found == pools().end() ? PoolFlags{false, false} : found->second;
}

}  // namespace

void set_pool_flags(uint32_t pool, bool no_split, bool use_on_oom) {
  std::unique_lock<std::shared_mutex> lock(pools_mutex());
  pools()[pool] = {no_split, use_on_oom};
}

void forget_pool(uint32_t pool) {
  std::unique_lock<std::shared_mutex> lock(pools_mutex());
  pools().erase(pool);
}

bool pool_is_whole(uint32_t pool) { return flags_of(pool).no_split; }

bool pool_helps(uint32_t pool) { return flags_of(pool).use_on_oom; }

Block* DeviceMemory::allocate(size_t bytes, c10::StreamId stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= kMostBytes, "NPU out of memory. Tried to allocate ", bytes,
                   " bytes, more than any device has", pta_error(ErrCode::kMemory));
  const Context context = C10_UNLIKELY(tracing()) ? gather_stack(Stacks::kState) : nullptr;
  Lock lock(mutex_);
  if (C10_UNLIKELY(!pending_.empty())) finish_pending();
  size_t size = options_.block_size(bytes);
  Block* block = take(size, stream, size > kSmall);
  if (block == nullptr) {
    lock.unlock();
    block = grow(bytes, stream, context);
    lock.lock();
    size = options_.block_size(bytes);
  }
  split(block, size);
  block->requested = bytes;
  counts_.allocated(*block, options_.max_split);
  if (C10_UNLIKELY(tracing())) {
    if (context != nullptr) block->more().made = context;
    const bool show = trace_settings().stacks.load() >= Stacks::kAllocations;
    trace_.add("alloc", reinterpret_cast<size_t>(block->address), bytes, stream, show ? context : nullptr);
  }
  return block;
}

void DeviceMemory::free(Block* block) {
  const Context context = C10_UNLIKELY(tracing()) ? gather_stack(Stacks::kAll) : nullptr;
  Lock lock(mutex_);
  counts_.freed(*block, options_.max_split);
  if (C10_UNLIKELY(tracing())) {
    trace_.add("free_requested", reinterpret_cast<size_t>(block->address), block->requested, block->stream, context);
  }
  if (C10_UNLIKELY(block->extra != nullptr && !block->extra->streams.empty())) {
    block->pending = true;
    pending_.push_back(block);
    return;
  }
  if (C10_LIKELY(!options_.no_caching)) return complete(block);
  complete(block);
  release_cached(lock, std::nullopt);
}

// Work on the other streams is over when the call that gave it to them returns. A block waits for them all the same until the next
// allocation looks, as on a device: figures and snapshots show it in between.
void DeviceMemory::finish_pending() {
  for (Block* block : pending_) complete(block);
  pending_.clear();
}

void DeviceMemory::complete(Block* block) {
  counts_.completed(*block);
  if (C10_UNLIKELY(tracing())) {
    trace_.add("free_completed", reinterpret_cast<size_t>(block->address), block->requested, block->stream, nullptr);
  }
  block->extra.reset();
  block->used = block->pending = false;
  block->freed_at = ++clock_;
  block = merge(block);
  free_blocks(block->large).insert(block);
  if (!block->whole()) counts_.inactive(*block);
}

void DeviceMemory::record_stream(Block* block, c10::StreamId stream) {
  const auto plain = plain_stream(stream);
  std::lock_guard<std::mutex> lock(mutex_);
  if (plain == plain_stream(block->stream)) return;
  auto& streams = block->more().streams;
  if (std::find(streams.begin(), streams.end(), plain) == streams.end()) streams.push_back(plain);
}

void DeviceMemory::erase_stream(Block* block, c10::StreamId stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (block->extra == nullptr) return;
  auto& streams = block->extra->streams;
  streams.erase(std::remove(streams.begin(), streams.end(), plain_stream(stream)), streams.end());
}

// The smallest free block of the stream that is large enough. One above max_split serves large requests only, and those only
// when not too much of it would lie idle, since it will not be cut.
Block* DeviceMemory::take(size_t size, c10::StreamId stream, bool large) {
  auto& blocks = free_blocks(large);
  auto found = blocks.lower_bound({stream, size});
  if (found == blocks.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  if (size < options_.max_split ? block->size >= options_.max_split : block->size >= size + kLargeSegment) return nullptr;
  blocks.erase(found);
  if (!block->whole()) counts_.no_longer_inactive(*block);
  block->used = true;
  return block;
}

void DeviceMemory::split(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (rest < (block->large ? kSmall + 1 : kRound) || size >= options_.max_split) return;
  if (C10_UNLIKELY(pool_of(block->stream) != 0 && pool_is_whole(pool_of(block->stream)))) return;
  Block* other = new_block();
  other->stream = block->stream;
  other->address = block->address + size;
  other->size = rest;
  other->large = block->large;
  other->freed_at = block->freed_at;
  other->previous = block;
  other->next = block->next;
  if (other->next != nullptr) other->next->previous = other;
  block->next = other;
  block->size = size;
  free_blocks(other->large).insert(other);
  counts_.inactive(*other);
}

// Records of blocks are used again, as almost every allocation cuts one and almost every free joins two.
Block* DeviceMemory::new_block() {
  Block* block = nullptr;
  if (spare_ == nullptr) {
    block = new Block;
  } else {
    block = spare_;
    spare_ = block->next;
    *block = Block();
  }
  block->owner = this;
  return block;
}

void DeviceMemory::end_block(Block* block) {
  block->extra.reset();
  block->next = spare_;
  spare_ = block;
}

void DeviceMemory::take_out(Block* block) {
  free_blocks(block->large).erase(block);
  if (!block->whole()) counts_.no_longer_inactive(*block);
}

Block* DeviceMemory::merge(Block* block) {
  if (Block* before = block->previous; before != nullptr && !before->used) {
    take_out(before);
    block = join(before, block);
  }
  if (Block* after = block->next; after != nullptr && !after->used) {
    take_out(after);
    block = join(block, after);
  }
  return block;
}

Block* DeviceMemory::join(Block* first, Block* second) {
  first->size += second->size;
  first->freed_at = std::max(first->freed_at, second->freed_at);
  first->next = second->next;
  if (first->next != nullptr) first->next->previous = first;
  end_block(second);
  return first;
}

bool DeviceMemory::holds(const void* address) {
  const auto* wanted = static_cast<const char*>(address);
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = segments_.upper_bound(wanted);
  if (next == segments_.begin()) return false;
  const Block* last = *--next;
  while (last->next != nullptr) last = last->next;
  return wanted < last->address + last->size;
}

c10::CachingDeviceAllocator::DeviceStats DeviceMemory::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = counts_.stats;
  found.max_split_size = static_cast<int64_t>(options_.max_split);
  return found;
}

void DeviceMemory::reset_peaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  counts_.reset_peaks();
}

void DeviceMemory::reset_accumulated() {
  std::lock_guard<std::mutex> lock(mutex_);
  counts_.reset_accumulated();
}

void DeviceMemory::set_fraction(double fraction) {
  std::lock_guard<std::mutex> lock(mutex_);
  fraction_ = fraction;
}

double DeviceMemory::fraction() {
  std::lock_guard<std::mutex> lock(mutex_);
  return fraction_;
}

// Oversize figures speak about one limit: with another they begin anew, at what is in use now.
void DeviceMemory::configure(const Options& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (options.max_split != options_.max_split) {
    counts_.stats.oversize_allocations = {};
    counts_.stats.oversize_segments = {};
    for (const Block* first : segments_) {
      size_t total = 0;
      for (const Block* block = first; block != nullptr; block = block->next) {
        total += block->size;
        if (block->used && !block->pending && block->size >= options.max_split) counts_.stats.oversize_allocations.increase(1);
      }
      if (total >= options.max_split) counts_.stats.oversize_segments.increase(1);
    }
  }
  options_ = options;
}

void DeviceMemory::snapshot(std::vector<SegmentView>& out) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Block* first : segments_) {
    SegmentView segment{index_, reinterpret_cast<size_t>(first->address)};
    segment.stream = first->stream;
    segment.large = first->large;
    if (auto found = segment_contexts_.find(first->address); found != segment_contexts_.end()) segment.context = found->second;
    for (const Block* block = first; block != nullptr; block = block->next) {
      const char* state = block->pending ? "active_pending_free" : block->used ? "active_allocated" : "inactive";
      const size_t requested = block->used ? block->requested : 0;
      segment.blocks.push_back({reinterpret_cast<size_t>(block->address), block->size, requested, state,
                                block->extra != nullptr ? block->extra->made : nullptr});
      segment.total += block->size;
      if (!block->used) continue;
      segment.active += block->size;
      segment.requested += requested;
      if (!block->pending) segment.allocated += block->size;
    }
    out.push_back(std::move(segment));
  }
}

std::vector<TraceEntry> DeviceMemory::trace(bool mark) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (mark) trace_.add("snapshot", 0, 0, 0, nullptr);
  return trace_.entries();
}

void DeviceMemory::set_trace(size_t most, bool clear) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (clear) trace_.clear();
  trace_.keep_at_most(most);
}

}  // namespace softnpu
