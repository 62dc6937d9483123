#include "allocator.h"

#include "device.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>

namespace softnpu {

namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

// The sizes that the product documents.
constexpr size_t kRound = 512;
constexpr size_t kSmall = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddle = size_t{10} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kLargeRound = size_t{2} << 20;

size_t up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t block_size(size_t bytes) { return bytes < kRound ? kRound : up(bytes, kRound); }

size_t segment_size(size_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kMiddle ? kLargeSegment : up(size, kLargeRound);
}

std::string human(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed;
  if (bytes < 1024) {
    text << bytes << " bytes";
  } else if (bytes < size_t{1} << 20) {
    text << bytes / 1024.0 << " KiB";
  } else if (bytes < size_t{1} << 30) {
    text << bytes / double(1 << 20) << " MiB";
  } else {
    text << bytes / double(1 << 30) << " GiB";
  }
  return text.str();
}

struct Block {
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  char* address = nullptr;
  size_t size = 0;
  size_t requested = 0;
  bool large = false;
  bool used = false;
  Block* previous = nullptr;  // the neighbours in the same segment
  Block* next = nullptr;

  bool whole() const { return previous == nullptr && next == nullptr; }
};

struct Smaller {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->address < b->address;
  }
};

using Pool = std::set<Block*, Smaller>;

// One device: its free blocks in two pools, its used ones by address.
class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) {}

  Block* allocate(size_t bytes, c10::StreamId stream) {
    std::unique_lock<std::mutex> lock(mutex_);
    const size_t size = block_size(bytes);
    const bool large = size > kSmall;
    Block* block = take(size, stream, large);
    if (block == nullptr) block = take_new(lock, size, stream, large);
    split(block, size);
    block->used = true;
    block->requested = bytes;
    count(*block, +1);
    return block;
  }

  void free(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    count(*block, -1);
    block->used = false;
    block = merge(block);
    pool(block->large).insert(block);
    if (!block->whole()) inactive(*block, +1);
  }

  void empty_cache() {
    std::unique_lock<std::mutex> lock(mutex_);
    release_cached(lock);
  }

  DeviceStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

  void reset_peaks() {
    std::lock_guard<std::mutex> lock(mutex_);
    each([](Stat& stat) { stat.reset_peak(); });
    stats_.oversize_allocations.reset_peak();
    stats_.oversize_segments.reset_peak();
  }

  void reset_accumulated() {
    std::lock_guard<std::mutex> lock(mutex_);
    each([](Stat& stat) { stat.reset_accumulated(); });
    stats_.num_alloc_retries = stats_.num_ooms = 0;
    stats_.num_device_alloc = stats_.num_device_free = stats_.num_sync_all_streams = 0;
  }

  void set_fraction(double fraction) {
    std::lock_guard<std::mutex> lock(mutex_);
    fraction_ = fraction;
  }

  double fraction() {
    std::lock_guard<std::mutex> lock(mutex_);
    return fraction_;
  }

  void snapshot(std::vector<SegmentInfo>& out) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Block* first : segments_) {
      SegmentInfo info;
      info.device = index_;
      info.address = reinterpret_cast<size_t>(first->address);
      info.is_large = first->large;
      info.stream = reinterpret_cast<void*>(first->stream);
      for (const Block* block = first; block != nullptr; block = block->next) {
        BlockInfo one;
        one.size = block->size;
        one.requested_size = block->used ? block->requested : 0;
        one.allocated = one.active = block->used;
        info.total_size += block->size;
        if (block->used) {
          info.allocated_size += block->size;
          info.active_size += block->size;
          info.requested_size += block->requested;
        }
        info.blocks.push_back(one);
      }
      out.push_back(std::move(info));
    }
  }

 private:
  Pool& pool(bool large) { return large ? large_ : small_; }

  static int64_t amount(size_t value, int sign) { return sign * static_cast<int64_t>(value); }

  static void change(StatArray& array, bool large, int64_t by) {
    for (auto type : {StatType::AGGREGATE, large ? StatType::LARGE_POOL : StatType::SMALL_POOL}) {
      auto& stat = array[static_cast<size_t>(type)];
      by >= 0 ? stat.increase(static_cast<size_t>(by)) : stat.decrease(static_cast<size_t>(-by));
    }
  }

  void count(const Block& block, int sign) {
    change(stats_.allocation, block.large, sign);
    change(stats_.active, block.large, sign);
    change(stats_.allocated_bytes, block.large, amount(block.size, sign));
    change(stats_.active_bytes, block.large, amount(block.size, sign));
    change(stats_.requested_bytes, block.large, amount(block.requested, sign));
  }

  void inactive(const Block& block, int sign) {
    change(stats_.inactive_split, block.large, sign);
    change(stats_.inactive_split_bytes, block.large, amount(block.size, sign));
  }

  template <typename Change>
  void each(Change apply) {
    for (auto* array : {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes,
                        &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
      for (auto& stat : *array) apply(stat);
    }
  }

  Block* take(size_t size, c10::StreamId stream, bool large) {
    Block key;
    key.stream = stream;
    key.size = size;
    auto& free_blocks = pool(large);
    auto found = free_blocks.lower_bound(&key);
    if (found == free_blocks.end() || (*found)->stream != stream) return nullptr;
    Block* block = *found;
    free_blocks.erase(found);
    if (!block->whole()) inactive(*block, -1);
    return block;
  }

  // A new segment. The runtime is asked without the lock: it may need Python's own.
  Block* take_new(std::unique_lock<std::mutex>& lock, size_t size, c10::StreamId stream, bool large) {
    const size_t bytes = segment_size(size);
    void* address = ask(lock, bytes);
    if (address == nullptr) {
      ++stats_.num_alloc_retries;
      release_cached(lock);
      address = ask(lock, bytes);
    }
    if (address == nullptr) fail(lock, size);
    auto* block = new Block;
    block->device = index_;
    block->stream = stream;
    block->address = static_cast<char*>(address);
    block->size = bytes;
    block->large = large;
    segments_.insert(block);
    ++stats_.num_device_alloc;
    change(stats_.segment, large, +1);
    change(stats_.reserved_bytes, large, amount(bytes, +1));
    return block;
  }

  void* ask(std::unique_lock<std::mutex>& lock, size_t bytes) {
    if (fraction_ < 1.0) {
      const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
      if (reserved + bytes > static_cast<size_t>(fraction_ * static_cast<double>(runtime().total(index_)))) return nullptr;
    }
    lock.unlock();
    void* address = runtime().allocate(index_, bytes);
    lock.lock();
    return address;
  }

  [[noreturn]] void fail(std::unique_lock<std::mutex>& lock, size_t size) {
    ++stats_.num_ooms;
    const auto allocated = stats_.allocated_bytes[0].current, active = stats_.active_bytes[0].current;
    const auto reserved = stats_.reserved_bytes[0].current;
    const double fraction = fraction_;
    lock.unlock();
    const size_t total = runtime().total(index_);
    std::string allowed;
    if (fraction < 1.0) allowed = human(static_cast<size_t>(fraction * static_cast<double>(total))) + " allowed; ";
    TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", human(size), " (NPU ",
                     static_cast<int>(index_), "; ", human(total), " total capacity; ", human(allocated), " already allocated; ",
                     human(active), " current active; ", human(runtime().free(index_)), " free; ", allowed, human(reserved),
                     " reserved in total by PyTorch).If reserved memory is >> allocated memory try setting max_split_size_mb to "
                     "avoid fragmentation.");
  }

  void split(Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < (block->large ? kSmall + 1 : kRound)) return;
    auto* other = new Block;
    other->device = block->device;
    other->stream = block->stream;
    other->address = block->address + size;
    other->size = rest;
    other->large = block->large;
    other->previous = block;
    other->next = block->next;
    if (other->next != nullptr) other->next->previous = other;
    block->next = other;
    block->size = size;
    pool(other->large).insert(other);
    inactive(*other, +1);
  }

  Block* merge(Block* block) {
    if (Block* before = block->previous; before != nullptr && !before->used) {
      pool(before->large).erase(before);
      inactive(*before, -1);
      block = join(before, block);
    }
    if (Block* after = block->next; after != nullptr && !after->used) {
      pool(after->large).erase(after);
      inactive(*after, -1);
      block = join(block, after);
    }
    return block;
  }

  static Block* join(Block* first, Block* second) {
    first->size += second->size;
    first->next = second->next;
    if (first->next != nullptr) first->next->previous = first;
    delete second;
    return first;
  }

  void release_cached(std::unique_lock<std::mutex>& lock) {
    std::vector<void*> addresses;
    for (auto* free_blocks : {&small_, &large_}) {
      for (auto it = free_blocks->begin(); it != free_blocks->end();) {
        Block* block = *it;
        if (!block->whole()) {
          ++it;
          continue;
        }
        change(stats_.segment, block->large, -1);
        change(stats_.reserved_bytes, block->large, amount(block->size, -1));
        ++stats_.num_device_free;
        addresses.push_back(block->address);
        segments_.erase(block);
        it = free_blocks->erase(it);
        delete block;
      }
    }
    lock.unlock();
    for (void* address : addresses) runtime().release(index_, address);
    lock.lock();
  }

  const c10::DeviceIndex index_;
  std::mutex mutex_;
  Pool small_, large_;
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const { return a->address < b->address; }
  };
  std::set<Block*, ByAddress> segments_;  // the first block of each
  DeviceStats stats_;
  double fraction_ = 1.0;
};

DeviceMemory& memory_of(c10::DeviceIndex index) {
  static auto* all = [] {
    auto* made = new std::vector<std::unique_ptr<DeviceMemory>>;
    for (c10::DeviceIndex i = 0; i < 16; ++i) made->push_back(std::make_unique<DeviceMemory>(i));
    return made;
  }();
  return *(*all)[check_device(index)];
}

// Used blocks by address. torch hands memory about as bare addresses in places (raw_allocate), so a block must be found by its own.
class Used {
 public:
  void add(Block* block) {
    auto& shard = at(block->address);
    std::lock_guard<std::mutex> lock(shard.mutex);
    shard.blocks[block->address] = block;
  }

  Block* take(void* address) {
    auto& shard = at(address);
    std::lock_guard<std::mutex> lock(shard.mutex);
    auto found = shard.blocks.find(address);
    if (found == shard.blocks.end()) return nullptr;
    Block* block = found->second;
    shard.blocks.erase(found);
    return block;
  }

 private:
  struct Shard {
    std::mutex mutex;
    ska::flat_hash_map<void*, Block*> blocks;
  };
  static constexpr size_t kShards = 64;
  Shard& at(void* address) { return shards_[(reinterpret_cast<uintptr_t>(address) / kRound) % kShards]; }
  std::array<Shard, kShards> shards_;
};

Used& used() {
  static auto* all = new Used;
  return *all;
}

void free_used(void* address) {
  if (Block* block = used().take(address)) memory_of(block->device).free(block);
}

class NpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }

  c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes) {
    const c10::Device device(kNpu, index);
    if (bytes == 0) return {nullptr, device};
    Block* block = memory_of(index).allocate(bytes, current_stream(index).id());
    used().add(block);
    return {block->address, block->address, &free_used, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_used; }

  void copy_data(void* target, const void* source, size_t count) const override { std::memcpy(target, source, count); }

  bool initialized() override { return runtime().device_count > 0; }
  void emptyCache(c10::MempoolId_t) override { empty_cache(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // work is over when a call returns
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return memory_of(device).stats(); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { memory_of(device).reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex device) override { memory_of(device).reset_peaks(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return {runtime().free(check_device(device)), runtime().total(device)};
  }
};

NpuAllocator the_allocator;
thread_local int t_cpu_is_npu = -1;

// Memory for CPU kernels: the machine's, or that of the device which they run for.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* before) : before_(before) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (t_cpu_is_npu < 0) return before_->allocate(bytes);
    auto data = the_allocator.allocate_on(static_cast<c10::DeviceIndex>(t_cpu_is_npu), bytes);
    data.unsafe_set_device(c10::Device(c10::DeviceType::CPU));
    return data;
  }

  // Memory of either kind may come back to it.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* target, const void* source, size_t count) const override { std::memcpy(target, source, count); }

 private:
  static void release(void* address);
  c10::Allocator* before_;
};

CpuAllocator* the_cpu_allocator = nullptr;

void CpuAllocator::release(void* address) {
  if (Block* block = used().take(address)) {
    memory_of(block->device).free(block);
  } else {
    the_cpu_allocator->before_->raw_deallocate(address);
  }
}

}  // namespace

c10::DeviceAllocator* allocator() { return &the_allocator; }

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream) {
  Block* block = memory_of(device).allocate(bytes, stream);
  used().add(block);
  return block->address;
}

void raw_free(void* address) {
  if (address == nullptr) return;
  Block* block = used().take(address);
  TORCH_CHECK(block != nullptr, "invalid device pointer: ", address);
  memory_of(block->device).free(block);
}

void set_memory_fraction(c10::DeviceIndex device, double fraction) { memory_of(device).set_fraction(fraction); }

double memory_fraction(c10::DeviceIndex device) { return memory_of(device).fraction(); }

std::vector<SegmentInfo> snapshot() {
  std::vector<SegmentInfo> found;
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) memory_of(i).snapshot(found);
  return found;
}

void empty_cache() {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) memory_of(i).empty_cache();
}

CpuMemoryIsNpu::CpuMemoryIsNpu(c10::DeviceIndex device) : before_(t_cpu_is_npu) { t_cpu_is_npu = device; }
CpuMemoryIsNpu::~CpuMemoryIsNpu() { t_cpu_is_npu = before_; }

void install_cpu_allocator() {
  the_cpu_allocator = new CpuAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(the_cpu_allocator, 255);
}

REGISTER_ALLOCATOR(kNpu, &the_allocator)

}  // namespace softnpu
