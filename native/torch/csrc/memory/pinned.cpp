#include "memory/pinned.h"

#include "device/device.h"
#include "device/fork.h"

#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <map>
#include <mutex>

namespace softnpu {

namespace {

// The ranges that are pinned, for is_pinned(). A block that waits in the cache stays pinned, as on a device.
class Ranges {
 public:
  Ranges() { free_across_fork(mutex_); }

  void add(void* start, size_t size) {
    std::lock_guard<std::mutex> lock(mutex_);
    sizes_[reinterpret_cast<uintptr_t>(start)] = size;
  }
  void remove(void* start) {
    std::lock_guard<std::mutex> lock(mutex_);
    sizes_.erase(reinterpret_cast<uintptr_t>(start));
  }
  bool hold(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> lock(mutex_);
    auto next = sizes_.upper_bound(address);
    if (next == sizes_.begin()) return false;
    --next;
    return address < next->first + next->second;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> sizes_;
};

Ranges& ranges() {
  static auto* all = new Ranges;
  return *all;
}

// What is in use. torch counts it too, but before 2.13 a block that comes back stays in its figures.
class InUse {
 public:
  InUse() { free_across_fork(mutex_); }

  void add(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.increase(1);
    bytes_.increase(bytes);
  }
  void remove(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.decrease(1);
    bytes_.decrease(bytes);
  }
  void tell(at::HostStats& stats) {
    std::lock_guard<std::mutex> lock(mutex_);
    stats.active_requests = requests_;
    stats.active_bytes = bytes_;
  }
  void reset_accumulated() {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.reset_accumulated();
    bytes_.reset_accumulated();
  }
  void reset_peak() {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.reset_peak();
    bytes_.reset_peak();
  }

 private:
  std::mutex mutex_;
  c10::CachingAllocator::Stat requests_;
  c10::CachingAllocator::Stat bytes_;
};

struct NoEvent {};
using Block = at::HostBlock<c10::Stream>;
using HostImpl = at::CachingHostAllocatorImpl<c10::Stream, NoEvent>;

struct PinnedImpl : public HostImpl {
  std::pair<void*, void*> allocate(size_t size) override {
    const auto found = HostImpl::allocate(size);
    if (found.second != nullptr) in_use_.add(static_cast<Block*>(found.second)->size_);
    return found;
  }
  void free(void* block) override {
    if (block != nullptr) in_use_.remove(static_cast<Block*>(block)->size_);
    HostImpl::free(block);
  }
  // No stream is noted: its work is over when the call that gave it returns.
  bool record_event(void* pointer, void*, c10::Stream) override { return ranges().hold(pointer); }

  at::HostStats getStats() {
    auto stats = HostImpl::getStats();
    in_use_.tell(stats);
    return stats;
  }
  void resetAccumulatedStats() {
    HostImpl::resetAccumulatedStats();
    in_use_.reset_accumulated();
  }
  void resetPeakStats() {
    HostImpl::resetPeakStats();
    in_use_.reset_peak();
  }

  // torch's own settings know nothing of the options of this device; asking them would make them read the environment.
  bool pinned_use_background_threads() override { return false; }
  size_t pinned_max_round_threshold() const { return std::numeric_limits<size_t>::max(); }
  size_t pinned_max_cached_size() const { return std::numeric_limits<size_t>::max(); }
  void copy_data(void* target, const void* source, std::size_t count) const override { std::memcpy(target, source, count); }

 private:
  void allocate_host_memory(size_t size, void** pointer) override {
    *pointer = c10::alloc_cpu(size);
    ranges().add(*pointer, size);
  }
  void free_block(Block* block) override {
    ranges().remove(block->ptr_);
    c10::free_cpu(block->ptr_);
  }

  InUse in_use_;
};

void release_pinned(void* block);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedImpl, &release_pinned>;

// It lives as long as the process: pinned tensors may be freed while the interpreter ends.
PinnedAllocator& the_pinned_allocator() {
  static auto* one = new PinnedAllocator;
  return *one;
}

void release_pinned(void* block) { the_pinned_allocator().free(block); }

const bool registered = [] {
  at::setHostAllocator(kNpu, &the_pinned_allocator());
  return true;
}();

}  // namespace

at::HostAllocator* pinned_allocator() { return &the_pinned_allocator(); }

bool is_pinned(const void* address) { return ranges().hold(address); }

}  // namespace softnpu
