#include "memory/allocator.h"

#include "device/device.h"
#include "device/errors.h"
#include "device/fork.h"
#include "device/profiler.h"
#include "memory/device_memory.h"

#include <c10/util/Exception.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <cstring>
#include <mutex>

namespace softnpu {

namespace {

// Used blocks by address. torch hands memory about as bare addresses in places (raw_allocate), so a block must be found by its own.
class Used {
 public:
  void add(Block* block) {
    auto& shard = at(block->address);
    std::lock_guard<std::mutex> lock(shard.mutex);
    shard.blocks[block->address] = block;
  }

  Block* find(void* address) {
    auto& shard = at(address);
    std::lock_guard<std::mutex> lock(shard.mutex);
    auto found = shard.blocks.find(address);
    return found == shard.blocks.end() ? nullptr : found->second;
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
  struct alignas(64) Shard {
    Shard() { free_across_fork(mutex); }
    std::mutex mutex;
    ska::flat_hash_map<void*, Block*> blocks;
  };
  static constexpr size_t kShards = 64;
  Shard& at(void* address) { return shards_[(reinterpret_cast<uintptr_t>(address) / kRound) % kShards]; }
  std::array<Shard, kShards> shards_;
};

// Both stay for the life of the process: tensors may be freed while it ends.
Used& used = *new Used;

DeviceMemory* const* const memories = [] {
  auto* made = new DeviceMemory*[kMostDevices];
  for (c10::DeviceIndex i = 0; i < kMostDevices; ++i) made[i] = new DeviceMemory(i);
  return made;
}();

void free_used(void* address) { free_if_ours(address); }

void hand_out(Block* block) {
  used.add(block);
  if (C10_UNLIKELY(memory_reports.load(std::memory_order_relaxed))) report_memory(*block, Moved::kTaken);
}

class NpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_used; }
  void copy_data(void* target, const void* source, size_t count) const override { std::memcpy(target, source, count); }

  bool initialized() override { return runtime().device_count > 0; }
  void emptyCache(c10::MempoolId_t pool) override {
    empty_cache(pool.second == 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(pool.second)));
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (Block* block = used.find(data.get_context())) block->owner->record_stream(block, stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override { return memory_of(device).stats(); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { memory_of(device).reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex device) override { memory_of(device).reset_peaks(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return {runtime().free(check_device(device)), runtime().total(device)};
  }
};

NpuAllocator the_allocator;

}  // namespace

c10::DeviceAllocator* allocator() { return &the_allocator; }

DeviceMemory& memory_of(c10::DeviceIndex index) { return *memories[check_device(index)]; }

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes) {
  const c10::Device device(kNpu, index);
  if (bytes == 0) return {nullptr, device};
  Block* block = memories[index]->allocate(bytes, current_stream(index).id());
  hand_out(block);
  return {block->address, block->address, &free_used, device};
}

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream) {
  Block* block = memory_of(device).allocate(bytes, stream);
  hand_out(block);
  return block->address;
}

bool free_if_ours(void* address) {
  Block* block = used.take(address);
  if (block == nullptr) return false;
  if (C10_UNLIKELY(memory_reports.load(std::memory_order_relaxed))) report_memory(*block, Moved::kFreed);
  block->owner->free(block);
  return true;
}

void raw_free(void* address) {
  TORCH_CHECK(address == nullptr || free_if_ours(address), "invalid device pointer: ", address,
              " is no block that the caching allocator gave and that is still in use", pta_error(ErrCode::kPointer));
}

void erase_stream(const c10::DataPtr& data, c10::StreamId stream) {
  if (Block* block = used.find(data.get_context())) block->owner->erase_stream(block, stream);
}

void empty_cache(std::optional<uint32_t> pool) {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) memory_of(i).empty_cache(pool);
}

c10::DeviceIndex device_of(void* address) {
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    if (memory_of(i).holds(address)) return i;
  }
  const int found = memory_source().locate(address);
  TORCH_CHECK(found >= 0, "The pointer ", address, " lies in the memory of no npu device; pass the address of device memory",
              pta_error(ErrCode::kPointer));
  return static_cast<c10::DeviceIndex>(found);
}

REGISTER_ALLOCATOR(kNpu, &the_allocator)

}  // namespace softnpu
