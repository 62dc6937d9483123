// Sync debug mode: `torch.npu.set_sync_debug_mode` asks to be told where the host waits for the device. Work is over when a call
// returns, so nothing waits here; what would wait on a chip is told, for programs that will run on one.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>

namespace pybind11 {
class module_;
}

namespace softnpu {

extern std::atomic<int> sync_debug_level;  // 0 off, 1 warn, 2 raise

void tell_sync(const char* what);
void tell_sync_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

inline bool sync_debug_on() { return sync_debug_level.load(std::memory_order_relaxed) != 0; }

// The host needs a value of the device.
inline void note_sync(const char* what) {
  if (sync_debug_on()) [[unlikely]]
    tell_sync(what);
}

// Before an operator runs: the sizes of some results are values of the device.
inline void note_sync_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (sync_debug_on()) [[unlikely]]
    tell_sync_of_call(op, stack);
}

void bind_sync_debug(pybind11::module_& m);

}  // namespace softnpu
