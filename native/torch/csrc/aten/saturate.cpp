#include "aten/saturate.h"

#include "aten/alias.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

namespace softnpu {

namespace {

std::atomic<bool> overflowed{false};

constexpr uint16_t kSign = 0x8000, kInf = 0x7C00, kLargest = 0x7BFF;
constexpr double kLargestValue = 65504;
constexpr int64_t kGrain = 1 << 16;

// Written so that the compiler can do many at once: no branch, no early end.
bool saturate_bits(uint16_t* bits, int64_t count) {
  uint16_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t value = bits[i];
    const uint16_t size = value & 0x7FFF;
    const uint16_t largest = (value & kSign) | kLargest;
    found |= size >= kInf ? 1 : 0;
    bits[i] = size < kInf ? value : (size == kInf ? largest : 0);
  }
  return found != 0;
}

bool saturate_cpu(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) {
    if (at::isfinite(tensor).all().item<bool>()) return false;
    tensor.nan_to_num_(0.0, kLargestValue, -kLargestValue);
    return true;
  }
  auto* bits = reinterpret_cast<uint16_t*>(tensor.mutable_data_ptr());
  std::atomic<bool> found{false};
  at::parallel_for(0, tensor.numel(), kGrain, [bits, &found](int64_t begin, int64_t end) {
    if (saturate_bits(bits + begin, end - begin)) found = true;
  });
  return found;
}

}  // namespace

void saturate(const at::Tensor& tensor, bool computed) {
  if (!tensor.defined() || tensor.scalar_type() != at::kHalf || tensor.numel() == 0) return;
  Aliases aliases;
  if (saturate_cpu(aliases.to_cpu(tensor)) && computed) overflowed = true;
}

bool has_overflowed() { return overflowed.load(); }

void clear_overflow() { overflowed = false; }

}  // namespace softnpu
