// A piece of device memory, and the rules by which sizes are rounded.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

namespace softnpu {

using Context = std::shared_ptr<c10::GatheredContext>;  // the stack of the program at some moment

// The sizes that the product documents.
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kRound = 512;
constexpr size_t kSmall = kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kMiddle = 10 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kLargeRound = 2 * kMiB;

// The number of a stream says in its upper half which memory pool its thread allocates from (torch_npu/_runtime/stream_ids.py).
inline uint32_t pool_of(c10::StreamId stream) { return static_cast<uint32_t>(static_cast<uint64_t>(stream) >> 32); }
inline c10::StreamId plain_stream(c10::StreamId stream) { return stream & 0xffffffff; }

// What PYTORCH_NPU_ALLOC_CONF says; torch_npu/npu/alloc_conf.py reads and checks it.
struct Options {
  size_t max_split = std::numeric_limits<size_t>::max();  // larger blocks are not cut, and serve large requests only
  double collect_above = 0;                               // part of the allowed memory from which unused segments go back
  bool divides = false;
  std::array<size_t, 16> divisions{};  // roundup_power2_divisions, from 1 MiB on by powers of two
  size_t segment = 0;                  // smallest segment of the large pool
  size_t large_segment = kLargeSegment;
  bool no_caching = false;

  size_t block_size(size_t bytes) const;
  size_t segment_size(size_t size) const;
};

struct BlockExtra {
  std::vector<c10::StreamId> streams;  // of others that use the block (record_stream)
  Context made;
};

class DeviceMemory;

struct Block {
  DeviceMemory* owner = nullptr;
  bool large = false;
  bool used = false;     // not in the set of free blocks
  bool pending = false;  // freed by the program, still named by streams
  c10::StreamId stream = 0;
  char* address = nullptr;
  size_t size = 0;
  size_t requested = 0;
  uint64_t freed_at = 0;
  Block* previous = nullptr;  // the neighbours in the same segment
  Block* next = nullptr;
  std::unique_ptr<BlockExtra> extra;

  bool whole() const { return previous == nullptr && next == nullptr; }
  BlockExtra& more() {
    if (extra == nullptr) extra = std::make_unique<BlockExtra>();
    return *extra;
  }
};

struct Wanted {
  c10::StreamId stream;
  size_t size;
};

struct Smaller {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->address < b->address;
  }
  bool operator()(const Block* a, const Wanted& b) const { return a->stream != b.stream ? a->stream < b.stream : a->size < b.size; }
};

struct ByAddress {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const { return a->address < b->address; }
  bool operator()(const char* a, const Block* b) const { return a < b->address; }
};

// Free blocks of one device and kind. Nodes of the set are used again: an allocation would make and end one each otherwise.
class FreeBlocks {
 public:
  using Set = std::set<Block*, Smaller>;

  void insert(Block* block) {
    if (spare_.empty()) {
      all_.insert(block);
      return;
    }
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.value() = block;
    all_.insert(std::move(node));
  }
  void erase(Set::iterator place) {
    auto node = all_.extract(place);
    if (spare_.size() < kSpare) spare_.push_back(std::move(node));
  }
  void erase(Block* block) { erase(all_.find(block)); }
  Set::iterator lower_bound(const Wanted& wanted) const { return all_.lower_bound(wanted); }
  Set::iterator begin() const { return all_.begin(); }
  Set::iterator end() const { return all_.end(); }

 private:
  static constexpr size_t kSpare = 16;
  Set all_;
  std::vector<Set::node_type> spare_;
};

inline size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

inline size_t Options::segment_size(size_t size) const {
  if (no_caching) return size;
  if (size <= kSmall) return kSmallSegment;
  if (size <= segment) return segment;
  return size < kMiddle ? large_segment : round_up(size, kLargeRound);
}

// The next of the equal parts into which the range between two powers of two is divided.
inline size_t next_division(size_t bytes, size_t parts) {
  const int top = 63 - __builtin_clzll(bytes);
  const size_t step = (size_t{1} << top) >> (63 - __builtin_clzll(parts));
  return step == 0 ? size_t{1} << (top + 1) : round_up(bytes, step);
}

inline size_t Options::block_size(size_t bytes) const {
  if (bytes < kRound) return kRound;
  if (C10_UNLIKELY(divides)) {
    const int above = 63 - __builtin_clzll(bytes) - 20;
    const size_t parts = divisions[above < 0 ? 0 : above > 15 ? 15 : above];
    if (parts > 1 && bytes > kRound * parts) return round_up(next_division(bytes, parts), kRound);
  }
  return round_up(bytes, kRound);
}

}  // namespace softnpu
