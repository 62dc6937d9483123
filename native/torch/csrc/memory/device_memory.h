// The memory of one device: segments from the runtime, blocks cut out of them, free blocks by stream and size.
//
// Two locks. `mutex_` guards the books and is held for moments, never while Python is called. `growth_` makes taking and giving back
// segments one thing at a time, so that limits hold and "no memory" is true; Python is called under it, so nobody waits for it with
// Python's lock in hand.
#pragma once

#include "device/fork.h"
#include "memory/counts.h"
#include "memory/trace.h"

#include <map>
#include <mutex>
#include <optional>

namespace softnpu {

constexpr int kMostDevices = 16;

// Where segments come from: set by the Python side (torch_npu/_runtime/connection.py), which owns the devices.
struct MemorySource {
  void* (*allocate)(int device, size_t bytes, c10::StreamId stream) = nullptr;  // null when there is none left
  void (*release)(int device, void* address, size_t bytes, c10::StreamId stream) = nullptr;
  void (*configure)() = nullptr;  // reads the options, once, before the first segment
  void (*out_of_memory)(int device, size_t bytes, size_t free) = nullptr;
  int (*locate)(void* address) = nullptr;  // the device of memory that the allocator did not make, or -1
};

MemorySource& memory_source();

struct BlockView {
  size_t address, size, requested;
  const char* state;
  Context context;
};

struct SegmentView {
  int device;
  size_t address, total = 0, allocated = 0, active = 0, requested = 0;
  c10::StreamId stream = 0;
  bool large = false;
  Context context{};
  std::vector<BlockView> blocks{};
};

class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) { free_across_fork(mutex_); }

  Block* allocate(size_t bytes, c10::StreamId stream);
  void free(Block* block);
  void record_stream(Block* block, c10::StreamId stream);
  void erase_stream(Block* block, c10::StreamId stream);
  void empty_cache(std::optional<uint32_t> pool);
  bool holds(const void* address);

  c10::DeviceIndex device() const { return index_; }
  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_peaks();
  void reset_accumulated();
  void set_fraction(double fraction);
  double fraction();
  void configure(const Options& options);

  void snapshot(std::vector<SegmentView>& out);
  std::vector<TraceEntry> trace(bool mark);
  void set_trace(size_t most, bool clear);

 private:
  using Lock = std::unique_lock<std::mutex>;

  FreeBlocks& free_blocks(bool large) { return large ? large_ : small_; }
  Block* take(size_t size, c10::StreamId stream, bool large);
  void take_out(Block* block);
  Block* new_block();
  void end_block(Block* block);
  void split(Block* block, size_t size);
  void complete(Block* block);
  void finish_pending();
  Block* merge(Block* block);
  Block* join(Block* first, Block* second);

  Block* grow(size_t bytes, c10::StreamId stream, const Context& context);
  Block* add_segment(void* address, size_t bytes, c10::StreamId stream, bool large, const Context& context);
  void* ask(Lock& lock, size_t bytes, c10::StreamId stream, size_t allowed);
  void collect(Lock& lock, size_t wanted, size_t threshold);
  bool release_oversize(Lock& lock, size_t size, c10::StreamId stream);
  void release_cached(Lock& lock, std::optional<uint32_t> pool);
  Block* take_from_pools(size_t size, bool large);
  void forget_segment(Block* block);
  void release(Lock& lock, const std::vector<Block*>& gone);
  [[noreturn]] void fail(Lock& lock, size_t wanted, c10::StreamId stream, size_t total, const Context& context);

  const c10::DeviceIndex index_;
  std::recursive_mutex growth_;
  std::mutex mutex_;
  FreeBlocks small_, large_;
  std::set<Block*, ByAddress> segments_;  // the first block of each
  std::vector<Block*> pending_;
  Block* spare_ = nullptr;  // a chain of records
  MemoryCounts counts_;
  Options options_;
  Trace trace_;
  std::map<char*, Context> segment_contexts_;  // only of segments made while recording
  double fraction_ = 1.0;
  uint64_t clock_ = 0;  // counts frees, for the age of free blocks
};

// What a pool of torch.npu.MemPool asks for beside segments of its own.
void set_pool_flags(uint32_t pool, bool no_split, bool use_on_oom);
void forget_pool(uint32_t pool);
bool pool_is_whole(uint32_t pool);
bool pool_helps(uint32_t pool);

}  // namespace softnpu
