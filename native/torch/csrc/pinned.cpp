#include "pinned.h"

#include "device.h"
#include "fork.h"

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

struct NoEvent {};  // work on a stream is over when the call that gave it returns

using HostImpl = at::CachingHostAllocatorImpl<c10::Stream, NoEvent>;

struct PinnedImpl : public HostImpl {
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
  void free_block(at::HostBlock<c10::Stream>* block) override {
    ranges().remove(block->ptr_);
    c10::free_cpu(block->ptr_);
  }
  void record_stream(std::optional<std::vector<NoEvent>>& events, c10::Stream) override { events->emplace_back(); }
  bool query_event(NoEvent&) override { return true; }
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
