#include "aten/softmax_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

// One build runs on every processor, and uses what it has.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define SOFTNPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SOFTNPU_CLONES
#endif
#define SOFTNPU_INLINE inline __attribute__((always_inline))

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions only

namespace softnpu {

namespace {

constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * 4)));
using Ints = int32_t __attribute__((vector_size(kLanes * 4)));
using Halves = uint16_t __attribute__((vector_size(kLanes * 2)));

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SOFTNPU_INLINE Floats load(const float* from) {
  Floats made;
  std::memcpy(&made, from, sizeof(made));
  return made;
}

SOFTNPU_INLINE Floats load(const c10::BFloat16* from) {
  Halves half;
  std::memcpy(&half, from, sizeof(half));
  return reinterpret_cast<Floats>(__builtin_convertvector(half, Ints) << 16);
}

SOFTNPU_INLINE void store(float* to, Floats values) { std::memcpy(to, &values, sizeof(values)); }

// To the nearest, ties to even; NaN stays NaN.
SOFTNPU_INLINE void store(c10::BFloat16* to, Floats values) {
  const Ints bits = reinterpret_cast<Ints>(values);
  Ints rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  rounded = values == values ? rounded : Ints{} + 0x7fc0;
  const Halves half = __builtin_convertvector(rounded & 0xffff, Halves);
  std::memcpy(to, &half, sizeof(half));
}

// e to the power of x for x <= 0, within 2 units in the last place; 0 below the smallest normal number, NaN of NaN.
SOFTNPU_INLINE Floats power(Floats x) {
  constexpr float kShift = 12582912.0f;  // adding it leaves whole numbers in the last bits
  const Floats low = x < -87.3f ? Floats{} - 87.3f : x;
  const Floats shifted = low * 1.44269504f + kShift;
  const Floats whole = shifted - kShift;
  const Floats rest = (low - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Floats sum = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  sum = sum * rest * rest + rest + 1.0f;
  const Floats scaled = reinterpret_cast<Floats>(reinterpret_cast<Ints>(sum) + (reinterpret_cast<Ints>(shifted) << 23));
  const Floats kept = x < -87.3f ? Floats{} : scaled;
  return x == x ? kept : x;
}

// A row in a buffer whose columns are filled up with -inf to whole vectors.
template <typename T>
SOFTNPU_INLINE float read(const T* row, const float* bias, int64_t columns, float* buffer) {
  Floats highest = Floats{} - kInfinity;
  int64_t at = 0;
  for (; at + kLanes <= columns; at += kLanes) {
    Floats x = load(row + at);
    if (bias != nullptr) x += load(bias + at);
    store(buffer + at, x);
    highest = x > highest ? x : highest;
  }
  float found = -kInfinity;
  for (int lane = 0; lane < kLanes; ++lane) found = highest[lane] > found ? highest[lane] : found;
  for (; at < columns; ++at) {
    const float x = static_cast<float>(row[at]) + (bias != nullptr ? bias[at] : 0.0f);
    buffer[at] = x;
    found = x > found ? x : found;
  }
  for (; at % kLanes != 0; ++at) buffer[at] = -kInfinity;
  return found;
}

SOFTNPU_INLINE float exponentials(float* buffer, int64_t columns, float top) {
  Floats sum{};
  for (int64_t at = 0; at < columns; at += kLanes) {
    const Floats x = power(load(buffer + at) - top);
    store(buffer + at, x);
    sum += x;
  }
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
  return total;
}

template <typename T>
SOFTNPU_INLINE void write(T* row, const float* buffer, int64_t columns, float factor) {
  int64_t at = 0;
  for (; at + kLanes <= columns; at += kLanes) store(row + at, load(buffer + at) * factor);
  for (; at < columns; ++at) row[at] = static_cast<T>(buffer[at] * factor);
}

template <typename T>
SOFTNPU_INLINE void some_rows(T* scores, const Rows& rows, int64_t begin, int64_t end, float* buffer) {
  for (int64_t i = begin; i < end; ++i) {
    T* row = scores + i * rows.columns;
    const float* bias = rows.bias == nullptr ? nullptr : rows.bias + i % rows.bias_rows * rows.columns;
    const float top = read(row, bias, rows.columns, buffer);
    // All hidden; a row with NaN may have no maximum either, and stays NaN.
    if (top == -kInfinity && std::all_of(buffer, buffer + rows.columns, [](float x) { return x == -kInfinity; })) {
      std::memset(static_cast<void*>(row), 0, sizeof(T) * rows.columns);
      rows.top[i] = std::numeric_limits<float>::lowest();
      rows.total[i] = 0;
      continue;
    }
    const float total = exponentials(buffer, rows.columns, top);
    write(row, buffer, rows.columns, 1.0f / total);
    rows.top[i] = top;
    rows.total[i] = total;
  }
}

SOFTNPU_CLONES void float_rows(float* scores, const Rows& rows, int64_t begin, int64_t end, float* buffer) {
  some_rows(scores, rows, begin, end, buffer);
}

SOFTNPU_CLONES void bfloat16_rows(c10::BFloat16* scores, const Rows& rows, int64_t begin, int64_t end, float* buffer) {
  some_rows(scores, rows, begin, end, buffer);
}

template <typename T, typename Work>
void in_parallel(T* scores, const Rows& rows, Work work) {
  constexpr int64_t kWorth = 1 << 14;  // scores that are worth a thread
  at::parallel_for(0, rows.count, std::max<int64_t>(1, kWorth / rows.columns), [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(rows.columns + kLanes);
    work(scores, rows, begin, end, buffer.data());
  });
}

}  // namespace

void softmax_rows(float* scores, const Rows& rows) { in_parallel(scores, rows, float_rows); }

void softmax_rows(c10::BFloat16* scores, const Rows& rows) { in_parallel(scores, rows, bfloat16_rows); }

}  // namespace softnpu
