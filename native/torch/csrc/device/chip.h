// SOFTNPU_TORCH=chip and saturating float16: what the chosen chip and its adapter cannot do. torch_npu/_runtime/chip.py brings the rows.
//
// Everything here hangs on one word that is 0 by default: a call pays one relaxed load for it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>

namespace softnpu {

enum Strictness : uint8_t { kRules = 1, kOneDevice = 2, kSaturates = 4, kForked = 8 };

extern std::atomic<uint8_t> strict_bits;

// A forked child of a process that used a device: nothing of it may be used there.
[[noreturn]] void refuse_in_fork();

inline uint8_t strict() noexcept { return strict_bits.load(std::memory_order_relaxed); }

// A call of the fallback: raises for an operator that the adapter lacks (or warns once, where it would run on the CPU), for a data
// type that it does not take, and for another device than the thread's.
void check_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// The same for kernels that have no schema at hand; without a name only what holds for every operator.
void check_kernel(const char* name, const at::Tensor& tensor);

}  // namespace softnpu
